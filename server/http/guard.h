#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "server/auth/admin_tokens.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

/// Decides who may use the API. Without tokens that is everybody who reaches it, but not the
/// scripts of web pages in a browser on this machine, which come under the name of the page's host
/// (DNS rebinding) or from another origin. What comes by the Unix socket is answered without a
/// token: the file's mode has let its user in.
class ApiGuard {
public:
    /// Requests must carry one of the tokens as a bearer token, if there are any.
    explicit ApiGuard(AdminTokens tokens) : tokens_(std::move(tokens)) {}

    /// The name of the token that the request has shown; "": none, or a wrong one.
    std::string_view name_shown(const ApiRequest& request) const;

    /// Nothing: a request that needs this role may be answered.
    std::optional<ApiReply> refusal(const ApiRequest& request, AdminRole needed) const;

private:
    const AdminToken* token_of(const ApiRequest& request) const;

    AdminTokens tokens_;
};

}  // namespace pulsegate
