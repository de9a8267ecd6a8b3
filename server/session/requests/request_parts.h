#pragma once

namespace pulsegate {

class Authorizations;
class MemoryLimits;
class Subscriptions;
class Wills;

/// What decides on a client's requests, and what they leave behind. It owns none of it.
struct RequestParts {
    Authorizations& authorizations;
    const MemoryLimits& memory;
    Subscriptions& subscriptions;
    Wills& wills;
};

}  // namespace pulsegate
