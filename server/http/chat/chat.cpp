#include "server/http/chat/chat.h"

#include <fmt/format.h>

#include "server/http/chat/chat_files.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

namespace {

struct ChatFile {
    std::string_view path;
    const char* content_type;
    const std::string_view* text;
};
constexpr ChatFile chat_files[] = {
    {"/chat/chat.css", "text/css; charset=utf-8", &chat_css},
    {"/chat/chat.js", "text/javascript; charset=utf-8", &chat_js},
    {"/chat/mqtt.js", "text/javascript; charset=utf-8", &mqtt_js},
};

/// The page may load its own files and talk to the gateway; nothing else, whatever names and
/// messages make of it.
std::string content_security_policy(const ChatGateway& gateway) {
    return fmt::format(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self' {}://*:{}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        gateway.scheme(), gateway.port);
}

ApiReply chat_file(const ChatGateway& gateway, const char* content_type, std::string_view text) {
    return {.body = std::string(text),
            .content_type = content_type,
            .fields = {{"Content-Security-Policy", content_security_policy(gateway)},
                       {"Referrer-Policy", "no-referrer"},
                       {"X-Content-Type-Options", "nosniff"}}};
}

ApiReply no_demo() {
    return api_refusal(boost::beast::http::status::not_found,
                       "there is no demo: start the gateway with --demo");
}

}  // namespace

boost::asio::awaitable<ApiReply> show_chat(const ApiContext& api, const ApiRequest&) {
    if (!api.chat) co_return no_demo();
    co_return chat_file(*api.chat, "text/html; charset=utf-8", chat_html);
}

boost::asio::awaitable<ApiReply> show_chat_file(const ApiContext& api, const ApiRequest& request) {
    if (!api.chat) co_return no_demo();
    if (request.path == "/chat/gateway.json")
        co_return api_reply({{"scheme", api.chat->scheme()},
                             {"port", api.chat->port},
                             {"path", api.chat->path},
                             {"sender_property", api.settings.sender_property}});
    for (const ChatFile& file : chat_files)
        if (file.path == request.path)
            co_return chat_file(*api.chat, file.content_type, *file.text);
    co_return api_refusal(boost::beast::http::status::not_found, "no such file of the demo");
}

}  // namespace pulsegate
