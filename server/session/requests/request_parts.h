#pragma once

namespace pulsegate {

class Authorizations;
class MemoryLimits;
class Subscriptions;
class Wills;

/// The parts that decide on a client's requests, and the parts that requests change. It owns none
/// of them.
struct RequestParts {
    Authorizations& authorizations;
    const MemoryLimits& memory;
    Subscriptions& subscriptions;
    Wills& wills;
};

}  // namespace pulsegate
