#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// The listener for MQTT over WebSocket that the demo's page uses, on the host of the page.
struct ChatGateway {
    bool tls = false;
    std::uint16_t port = 0;
    std::string path;

    std::string_view scheme() const { return tls ? "wss" : "ws"; }
};

/// `GET /chat`: the demo's page. Without `--demo`, the page and its files are answered with 404.
boost::asio::awaitable<ApiReply> show_chat(const ApiContext& api, const ApiRequest& request);

/// `GET /chat/{file}`: the files of the page, and `gateway.json`, the ChatGateway.
boost::asio::awaitable<ApiReply> show_chat_file(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
