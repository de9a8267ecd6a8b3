#pragma once

namespace pulsegate {

class AddressLimits;
class Admission;
class Authenticator;
class DataStore;
class DrainState;
struct GatewayTotals;
class LineWriter;
class Membership;

/// The parts that all shards and the API share. It owns none of them.
struct GatewayParts {
    Admission& admission;
    AddressLimits& address_limits;
    GatewayTotals& totals;
    Authenticator& authenticator;
    LineWriter* events;  ///< null if there is no event file
    DataStore& store;
    const DrainState& drain;
    const Membership* cluster;  ///< null: this node is alone
};

}  // namespace pulsegate
