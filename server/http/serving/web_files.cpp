#include "server/http/serving/web_files.h"

#include <fmt/format.h>

#include "server/http/serving/api_message.h"

namespace pulsegate {

ApiReply web_file_reply(const WebFile& file, const std::string& connect_to) {
    return {.body = std::string(file.text),
            .content_type = file.content_type,
            .fields = {{"Content-Security-Policy",
                        fmt::format("default-src 'none'; script-src 'self'; style-src 'self'; "
                                    "img-src data:; connect-src {}; base-uri 'none'; "
                                    "form-action 'none'; frame-ancestors 'none'; "
                                    "require-trusted-types-for 'script'",
                                    connect_to)},
                       {"Referrer-Policy", "no-referrer"},
                       {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace pulsegate
