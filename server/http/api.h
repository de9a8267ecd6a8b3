#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <utility>

#include "server/http/guard.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// Decides whether a request may be answered, and passes it to its resource (see routes.h).
class Api {
public:
    /// If there are tokens, requests must carry one.
    Api(const ApiContext& context, AdminTokens tokens)
        : context_(context), guard_(std::move(tokens)) {}

    void use(AdminTokens tokens) { guard_ = ApiGuard(std::move(tokens)); }

    /// The longest body that a request with this header may have.
    std::size_t most_body_bytes(const ApiRequest& request) const;

    /// The answer if the request is refused whatever its body says; nothing if it is not. Logs
    /// refused changes.
    std::optional<ApiReply> refusal(const ApiRequest& request) const;

    /// True if the request asks whether the gateway is well.
    bool is_probe(const ApiRequest& request) const;

    boost::asio::awaitable<ApiReply> answer(const ApiRequest& request) const;

    /// Counts a request that any part of the server has answered with this status.
    void count(const ApiRequest& request, boost::beast::http::status status) const;

private:
    std::optional<ApiReply> judge(const ApiRequest& request) const;

    const ApiContext context_;
    ApiGuard guard_;
};

}  // namespace pulsegate
