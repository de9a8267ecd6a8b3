#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "server/base/clock.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

struct AdminHost;
class AddressLimits;
class Admission;
class Authenticator;
class DataStore;
class DrainState;
class Membership;
class PresenceFeed;
class RepeatedRequests;
class Samples;
class RequestCounts;
class ShardQuestions;
class Traces;
class Webhook;
struct BrokerSettings;
struct ChatGateway;

/// The objects that the resources of the API use. It outlives all requests.
struct ApiContext {
    boost::asio::io_context& io;  ///< the API's thread, on which all resources run
    const ShardQuestions& shards;
    const Admission& admission;
    AddressLimits& address_limits;
    const Authenticator& authenticator;
    DataStore& store;
    const DrainState& drain;
    const AdminHost& host;
    WallMillis started;
    PresenceFeed& feed;
    Traces& traces;
    RepeatedRequests& repeated;
    const Samples& samples;
    RequestCounts& requests;
    const Webhook* webhook;     ///< null: there is none
    const Membership* cluster;  ///< null: this node is alone
    const BrokerSettings& settings;
    const std::optional<ChatGateway>& chat;  ///< for the demo, if it is on
};

}  // namespace pulsegate
