#include "server/handover/predecessor.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string_view>
#include <utility>

#include "server/base/version.h"
#include "server/handover/successor.h"

namespace pulsegate {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A long time, because the old process decides how long to wait, and then ends this one.
HandoverChannel::Deadline long_wait() { return Clock::now() + 10min; }

void tell_unread(const char* what) {
    spdlog::warn("upgrade: {} of the old process can't be read, and are lost", what);
}

}  // namespace

std::unique_ptr<Predecessor> Predecessor::find() {
    const char* const said = std::getenv(handover_variable);
    if (!said) return nullptr;
    int descriptor = -1;
    const std::string_view text = said;
    std::from_chars(text.data(), text.data() + text.size(), descriptor);
    ::unsetenv(handover_variable);  // processes that this one starts must not inherit it
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return std::make_unique<Predecessor>(UniqueFd(descriptor));
}

void Predecessor::refuse(const std::string& why) {
    try {
        channel_.send(HandoverStep::refused, why, long_wait());
    } catch (const HandoverError&) {
        // The old process has ended, or is ending this process, so the refusal is not needed.
    }
}

Inheritance Predecessor::await_inheritance(Promises promises) {
    channel_.send(HandoverStep::hello, encode(own_hello(std::move(promises))), long_wait());
    Inheritance inheritance;
    inheritance.lock = channel_.expect(HandoverStep::lock, long_wait()).descriptor;
    for (;;) {
        auto message = channel_.receive(long_wait());
        if (message.step == HandoverStep::listeners) return inheritance;
        if (message.step == HandoverStep::gateway) {
            const WipedAtEnd wiped(message.body);
            inheritance.gateway = decode_gateway(message.body);
            if (!inheritance.gateway)
                tell_unread("bans, counts of wrong passwords and TLS tickets");
            continue;
        }
        if (message.step != HandoverStep::listener)
            throw HandoverError("the old process passes something else than a listener");
        inheritance.sockets.push_back(
            {.url = std::move(message.body), .fd = std::move(message.descriptor)});
    }
}

Go Predecessor::take_clients(const Adopt& adopt, const AdoptHistory& adopt_history,
                             const std::function<void()>& finish, bool divides_rooms) {
    Ready ready{.divides_rooms = divides_rooms};
    // Runs on a temporary thread, so that the shards can be passed to their own threads later.
    std::async(std::launch::async, [&] {
        for (;;) {
            auto message = channel_.receive(long_wait());
            const WipedAtEnd wiped(message.body);
            if (message.step == HandoverStep::clients) return finish();
            if (message.step == HandoverStep::history) {
                if (!adopt_history(message.body)) tell_unread("events of users");
                continue;
            }
            if (message.step != HandoverStep::client)
                throw HandoverError("the old process passes something else than a client");
            const auto number = ready.adopted + ready.refused;
            const bool is_adopted = adopt(std::move(message.descriptor), message.body);
            ++(is_adopted ? ready.adopted : ready.refused);
            if (!is_adopted) ready.refused_clients.push_back(number);
        }
    }).get();
    try {
        channel_.send(HandoverStep::ready, encode(ready), long_wait());
        return decode_go(channel_.expect(HandoverStep::go, long_wait()).body);
    } catch (const OtherEnded&) {
        // The old process has died after it passed everything on, so this process serves its
        // clients.
        Go alone{.outcome = {.end = UpgradeOutcome::End::completed, .to = program_version()},
                 .since = Clock::now()};
        alone.outcome.moved = ready.adopted;
        return alone;
    }
}

void Predecessor::tell_serving() {
    try {
        channel_.send(HandoverStep::serving, "", long_wait());
    } catch (const OtherEnded&) {
        // The old process has died, so it can't continue.
    }
}

}  // namespace pulsegate
