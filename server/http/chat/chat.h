#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// Where the demo's page finds MQTT over WebSocket: on the host that the page itself comes from.
struct ChatGateway {
    bool tls = false;
    std::uint16_t port = 0;
    std::string path;

    std::string_view scheme() const { return tls ? "wss" : "ws"; }
};

/// `GET /chat`: the demo, a page to chat with. 404 without `--demo`, as all of its files.
boost::asio::awaitable<ApiReply> show_chat(const ApiContext& api, const ApiRequest& request);

/// `GET /chat/{file}`: what the page consists of, and `gateway.json`, the ChatGateway.
boost::asio::awaitable<ApiReply> show_chat_file(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
