#include "server/http/audit.h"

#include <fmt/format.h>

#include <boost/beast/http/verb.hpp>
#include <cstddef>
#include <string>

#include "server/base/log.h"

namespace pulsegate {

using boost::beast::http::status;
using boost::beast::http::verb;

namespace {

/// Room for a path with three names of the usual length and a reason.
constexpr std::size_t most_of_target = 1000;

/// Quotes and cuts the target. A target is percent-encoded, so it needs no characters but visible
/// ASCII.
std::string printable(std::string_view target) {
    std::string text = "'";
    for (const char c : target.substr(0, most_of_target)) {
        const bool is_plain = c > ' ' && c <= '~' && c != '\'' && c != '\\';
        text +=
            is_plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text += target.size() > most_of_target ? "'..." : "'";
    return text;
}

std::string audit_line(const ApiRequest& request, status status) {
    std::string target(request.path);
    if (!request.encoded_query.empty()) target.append("?").append(request.encoded_query);
    const bool is_over_socket =
        request.is_local || (!request.node.empty() && !request.address.known());
    std::string origin = is_over_socket ? "the Unix socket" : request.address.text();
    if (!request.node.empty()) origin += fmt::format(", at node {}", request.node);
    return fmt::format("audit: {} {} {} -> {} from {}", request.token.empty() ? "-" : request.token,
                       std::string_view(to_string(request.method)), printable(target),
                       static_cast<unsigned>(status), origin);
}

}  // namespace

bool is_change(const ApiRequest& request) {
    return request.method != verb::get && request.method != verb::head;
}

void audit(const ApiRequest& request, status status) {
    const LineWithFields line({.client = "",
                               .user = "",
                               .address = request.is_local ? "" : request.address.text(),
                               .reason = ""});
    spdlog::info("{}", audit_line(request, status));
}

void audit_refused(const ApiRequest& request, status status) {
    if (log_has_room()) audit(request, status);
}

}  // namespace pulsegate
