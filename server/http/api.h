#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// Decides whether a request may be answered, and passes it to its resource (see routes.h).
class Api {
public:
    /// Requests must carry the token as a bearer token, unless it is empty.
    Api(const ApiContext& context, std::string token)
        : context_(context), token_(std::move(token)) {}

    /// The longest body that a request with this header may have.
    std::size_t most_body_bytes(const ApiRequest& request) const;

    /// What the answer is whatever the body says; nothing: that depends.
    std::optional<ApiReply> refusal(const ApiRequest& request) const;

    /// Does it ask whether the gateway is well?
    bool is_probe(const ApiRequest& request) const;

    boost::asio::awaitable<ApiReply> answer(const ApiRequest& request) const;

private:
    bool has_token(const ApiRequest& request) const;
    std::string_view objection_to_page(const ApiRequest& request) const;

    const ApiContext context_;
    const std::string token_;
};

}  // namespace pulsegate
