#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "server/http/serving/api_message.h"

namespace pulsegate {

class Membership;

/// Lets the node that owns the data answer the requests of this node's clients. So any node of a
/// cluster answers for the whole cluster. It runs on the thread of `io`.
class Forwarding {
public:
    /// `cluster` must outlive it.
    Forwarding(Membership& cluster, boost::asio::io_context& io) : cluster_(cluster), io_(io) {}

    /// This node must have admitted the client, with the token of this name ("": there are no
    /// tokens). If the link has no TLS, the home checks the token again. The reply is 503 if no
    /// node owns the data, or if the owner does not answer.
    boost::asio::awaitable<ApiReply> answer(const ApiRequest& request, std::string token) const;

private:
    Membership& cluster_;
    boost::asio::io_context& io_;
};

}  // namespace pulsegate
