#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "server/http/serving/api_message.h"

namespace pulsegate {

class AddressLimits;
class Admission;
class Authenticator;
class DataStore;
class PresenceFeed;
class ShardQuestions;
class Webhook;
struct BrokerSettings;
struct ChatGateway;

/// What the resources of the API work with. It outlives all requests.
struct ApiContext {
    boost::asio::io_context& io;  ///< of the API's thread, on which all resources run
    const ShardQuestions& shards;
    const Admission& admission;
    AddressLimits& address_limits;
    const Authenticator& authenticator;
    DataStore& store;
    PresenceFeed& feed;
    const Webhook* webhook;  ///< null: there is none
    const BrokerSettings& settings;
    const std::optional<ChatGateway>& chat;  ///< of the demo, if there is one
};

}  // namespace pulsegate
