#include "server/shard/shard_upgrade.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "server/base/secrets/secret_bytes.h"
#include "server/session/users/history_passage.h"
#include "server/transport/connections/connection.h"
#include "server/upgrade/record_codec.h"

namespace pulsegate {

namespace {

const char* reason_of(Passing passing) {
    switch (passing) {
        case Passing::handshake: return "handshake under way";
        case Passing::login: return "login under way";
        case Passing::tls: return "TLS kept by OpenSSL";
        default: return "about to end";
    }
}

}  // namespace

ShardUpgrade::ShardUpgrade(unsigned index, Rounds& rounds, const std::deque<OwnTurn>& turns,
                           Broker& broker, Transport& transport, LoginFlow& logins,
                           Listeners& listeners)
    : index_(index),
      rounds_(rounds),
      turns_(turns),
      broker_(broker),
      transport_(transport),
      logins_(logins),
      listeners_(listeners) {}

// -- rest --

void ShardUpgrade::rest(Rest rest) {
    rest_ = rest;
    transport_.rest(rest);
}

void ShardUpgrade::begin_freeze() {
    rested_ = monotonic_now();
    rest(Rest::reading);
    listeners_.rest();
}

ShardUpgrade::Settled ShardUpgrade::settle(bool holds_logins) {
    if (rest_ != Rest::reading) return {};
    if (holds_logins != holds_logins_) logins_.hold(holds_logins);
    holds_logins_ = holds_logins;
    finishes_ended_ = true;
    const bool were_none = transport_.finish_ended();
    finishes_ended_ = false;
    const bool is_judging = broker_.judge_some(monotonic_now());
    const bool is_quiet = broker_.passage().settle(monotonic_now());
    transport_.end_turn();
    return {
        .is_quiet = were_none && is_quiet && !is_judging && transport_.is_quiet() && turns_.empty(),
        .logins = logins_.under_way(),
        .handled = handled_};
}

std::optional<Millis> ShardUpgrade::thaw() {
    if (rest_ == Rest::none) return std::nullopt;
    const Millis now = monotonic_now();
    rest(Rest::none);
    broker_.passage().go_on();
    transport_.wake(now - rested_);
    logins_.hold(holds_logins_ = false);
    listeners_.tick();
    rounds_.go_on();  // with the items and turns that were held
    return now - std::min(rested_, std::exchange(paused_, std::nullopt).value_or(rested_));
}

void ShardUpgrade::after(Millis time, std::function<void()> call) {
    rounds_.after(timer_, std::chrono::milliseconds(time), std::move(call));
}

// -- clients that pass --

ExportCounts ShardUpgrade::export_clients(const std::function<void(int, std::string_view)>& visit) {
    ExportCounts counts;
    const Millis now = monotonic_now();
    transport_.visit([&](Connection& connection) {
        const Passing passing = connection.passing();
        if (passing != Passing::passes) return void(++counts.left[reason_of(passing)]);
        ++counts.moved;
        std::string state = encode({.session = broker_.passage().describe(*connection.session, now),
                                    .connection = connection.describe(rested_)});
        const WipedAtEnd wiped(state);
        visit(connection.socket(), state);
    });
    return counts;
}

void ShardUpgrade::export_history(const std::function<void(std::string_view)>& visit) {
    describe(broker_.admin().history(), index_,
             [&](const HistoryRecord& record) { visit(encode(record)); });
}

void ShardUpgrade::end_left_behind(std::span<const int> refused) {
    const Ending upgraded{Cause::drained, Reason::server_shutting_down,
                          "the server was upgraded: connect again"};
    transport_.visit([&](Connection& connection) {
        if (connection.passing() != Passing::passes ||
            std::ranges::binary_search(refused, connection.socket()))
            connection.say_end(upgraded);
    });
}

/// A shard that gets no clients rests as well, because absent clients can't come back meanwhile.
void ShardUpgrade::rest_until_thaw() {
    if (rest_ == Rest::all) return;
    rested_ = monotonic_now();
    rest(Rest::all);
}

ShardUpgrade::Adoption ShardUpgrade::adopt(UniqueFd socket, std::string_view state) {
    rest_until_thaw();
    const auto record = decode(state);
    if (!record || record->connection.version != record->session.version) return Adoption::refused;
    const auto connection = transport_.adopt(std::move(socket), record->connection);
    if (!connection) return Adoption::refused;
    if (broker_.passage().adopt(record->session, *connection, monotonic_now()))
        return Adoption::adopted;
    connection->close();
    return Adoption::refused;
}

/// Damaged data is refused there.
unsigned ShardUpgrade::home_of(std::string_view state, Homes homes) {
    return homes.shard_of(user_of_record(state).value_or(""));
}

void ShardUpgrade::finish_adoption() {
    rest_until_thaw();
    broker_.passage().finish(monotonic_now());
}

}  // namespace pulsegate
