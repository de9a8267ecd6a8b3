#include "server/handover/standstill.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <utility>

#include "server/base/files/line_writer.h"
#include "server/events/webhook.h"
#include "server/http/admin.h"
#include "server/shard/data_store.h"
#include "server/shard/gateway_freeze.h"
#include "server/shard/shard.h"

namespace pulsegate {

namespace {

/// Short, because all clients wait meanwhile, and clients that log in can try again.
constexpr Millis longest_wait_for_logins = 250;
/// Lines that wait for a reader, for example of a pipe, are lost when this process ends.
constexpr std::chrono::milliseconds longest_wait_for_events{100};

}  // namespace

Standstill::Standstill(const GatewayPieces& gateway, HandoverChannel::Deadline deadline)
    : gateway_(gateway),
      kept_alive_(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - since_)) {
    if (gateway_.webhook) gateway_.webhook->stop();
    gateway_.admin.hold();
    try {
        freeze(deadline);
        if (gateway_.events)
            gateway_.events->flush(std::chrono::steady_clock::now() + longest_wait_for_events);
    } catch (...) {
        go_on();
        throw;
    }
}

Standstill::~Standstill() { go_on(); }

void Standstill::freeze(HandoverChannel::Deadline deadline) {
    const Millis left = std::chrono::duration_cast<std::chrono::milliseconds>(
                            deadline - std::chrono::steady_clock::now())
                            .count();
    const auto done = std::make_shared<std::promise<bool>>();
    GatewayFreeze::begin(
        gateway_.shards,
        {.for_logins = std::min(left / 4, longest_wait_for_logins), .for_all = left / 2},
        [done](bool at_rest) { done->set_value(at_rest); });
    if (!done->get_future().get())
        throw HandoverError(
            "what is under way does not end within half of the longest pause (--longest-pause)");
}

int Standstill::close_store() {
    is_closed_ = true;
    lock_ = gateway_.store.suspend();
    if (!lock_) throw HandoverError("the store could not be closed in order; the log says why");
    return lock_.get();
}

void Standstill::go_on() {
    if (is_closed_) {
        const service::KeptAlive kept_alive;  // a large store takes a while
        try {
            gateway_.store.resume(std::move(lock_));
        } catch (const std::exception& error) {
            // All acknowledged data is stored, so the next start finds it.
            spdlog::critical("the store can't be opened again: {}; the gateway exits",
                             error.what());
            spdlog::default_logger_raw()->flush();
            std::_Exit(start_again);
        }
        gateway_.shards.front()->call([](Shard& first) { first.upgrade().store_reopened(); }).get();
    }
    const auto done = std::make_shared<std::promise<void>>();
    GatewayFreeze::end(gateway_.shards, [done] { done->set_value(); });
    done->get_future().wait();
    gateway_.admin.release();
    if (gateway_.webhook) gateway_.webhook->start(gateway_.store.ledger());
}

}  // namespace pulsegate
