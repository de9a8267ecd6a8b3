#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "server/auth/admin_tokens.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

/// Decides which requests the API may answer. Without tokens it answers all clients that reach it,
/// except scripts of web pages in a browser on this machine: their requests name the page's host
/// (DNS rebinding) or another origin. Requests over the Unix socket need no token, because the
/// file's mode has already admitted their user. Requests that another node carries need none if
/// that node has proven that it is a node, because its own guard has admitted the client.
class ApiGuard {
public:
    /// If there are tokens, requests must carry one as a bearer token.
    explicit ApiGuard(AdminTokens tokens) : tokens_(std::move(tokens)) {}

    /// The name of the request's token; "" if the token is missing or wrong.
    std::string_view name_shown(const ApiRequest& request) const;

    /// Nothing if a request that needs this role may be answered.
    std::optional<ApiReply> refusal(const ApiRequest& request, AdminRole needed) const;

    /// The same reply. If it is a stream, it ends when the request would be refused. The guard and
    /// the texts of the request must outlive it.
    ApiReply guarded(ApiReply reply, const ApiRequest& request, AdminRole needed) const;

private:
    const AdminToken* token_of(const ApiRequest& request) const;

    AdminTokens tokens_;
};

}  // namespace pulsegate
