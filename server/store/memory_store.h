#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <list>

#include "server/store/store.h"

namespace pulsegate {

/// Queues that live as long as the process.
class MemoryStore final : public Store {
public:
    void push(SessionId session, Delivery delivery) override;
    std::optional<Delivery> pop(SessionId session) override;
    void forget(SessionId session) override;

private:
    // Not deques: one takes 600 bytes before its first element, and most hold a few.
    boost::unordered_flat_map<SessionId, std::list<Delivery>> queues_;
};

}  // namespace pulsegate
