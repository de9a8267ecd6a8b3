#include "server/http/chat/chat.h"

#include <fmt/format.h>

#include "server/http/serving/web_files.h"
#include "server/session/terms/settings.h"

namespace pulsegate {

namespace {

ApiReply chat_file(const ChatGateway& gateway, std::string_view path) {
    const WebFile* const file = find_web_file(path);
    if (!file) return api_refusal(ApiError::unknown_resource, "the demo has no such file");
    return web_file_reply(*file, fmt::format("'self' {}://*:{}", gateway.scheme(), gateway.port));
}

ApiReply no_demo() {
    return api_refusal(ApiError::no_demo, "there is no demo: start the gateway with --demo");
}

}  // namespace

boost::asio::awaitable<ApiReply> show_chat(const ApiContext& api, const ApiRequest&) {
    if (!api.chat) co_return no_demo();
    co_return chat_file(*api.chat, "/chat");
}

boost::asio::awaitable<ApiReply> show_chat_file(const ApiContext& api, const ApiRequest& request) {
    if (!api.chat) co_return no_demo();
    if (request.path == "/chat/gateway.json")
        co_return api_reply({{"scheme", api.chat->scheme()},
                             {"port", api.chat->port},
                             {"path", api.chat->path},
                             {"sender_property", api.settings.sender_property}});
    co_return chat_file(*api.chat, request.path);
}

}  // namespace pulsegate
