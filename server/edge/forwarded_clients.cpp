#include "server/edge/forwarded_clients.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/base/memory/free_memory.h"
#include "server/limits/address_limits.h"
#include "server/login/authenticator.h"
#include "server/login/login_flow.h"
#include "server/session/life/logins.h"
#include "server/session/life/passed_parts.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

/// How long a login waits for the answer of the home.
constexpr Millis home_patience = 10'000;

/// The clients of a lost link leave at this pace, because each of them has to log in again.
constexpr std::size_t leave_at_once = 50;
constexpr std::chrono::milliseconds leave_pause{50};

/// A home takes at most ten times as many from all its edges.
constexpr std::size_t most_bans_at_begin = 10'000;

const Ending home_lost{Cause::shutdown, Reason::server_shutting_down,
                       "the node with its session is gone: connect again"};

}  // namespace

// -- logins --

void ForwardedClients::open(Login& login) {
    thread_.assert_here();
    Connection& connection = *login.connection;
    if (link_ == 0)
        return logins_.refuse(connection, login.connect(), login.result,
                              {Reason::server_unavailable,
                               "this node stands by, and has no link to the node that serves",
                               "the server can't be reached now: connect again"});
    const Connect& connect = login.connect();
    const auto line = logins_.fingerprint_of(login.result.password_line);
    if (login.result.password_line != 0 && line == 0)
        return logins_.refuse(connection, connect, login.result,
                              {Reason::not_authorized,
                               "its line of the password file was changed or removed meanwhile",
                               "it did not authenticate"});
    const auto user = logins_.user_name(connect, login.result, connect.client_id);
    const Client client{.link = link_,
                        .number = free_number(),
                        .home = static_cast<std::uint16_t>(user.empty() ? shard_ % homes_.shards()
                                                                        : homes_.shard_of(user)),
                        .room = Channel::window,
                        .unreported = 0};
    const auto peer = connection.endpoint();
    std::optional<std::uint64_t> hook_age;
    if (login.result.asked)
        hook_age = static_cast<std::uint64_t>(monotonic_now() - *login.result.asked);
    const ForwardedLogin forwarded{.connect = std::string(as_text(login.received.bytes)),
                                   .address = connection.origin_address().text(),
                                   .port = peer ? peer->port() : std::uint16_t{},
                                   .listener = std::string(connection.listener()),
                                   .user = login.result.user,
                                   .client = login.result.client,
                                   .password_line = line,
                                   .authorization = authorization_record(login.result),
                                   .hook_age = hook_age};
    connection.hold(home_patience);
    clients_.emplace(&connection, client);
    by_number_.emplace(client.number, &connection);
    put(client, EdgeFrameKind::open, encode(forwarded));
}

std::uint32_t ForwardedClients::free_number() {
    do ++last_number_;
    while (by_number_.contains(last_number_));
    return last_number_;
}

// -- packets --

void ForwardedClients::forward(Connection& connection, Bytes packet) {
    const auto found = clients_.find(&connection);
    if (found == clients_.end()) return;
    Client& client = found->second;
    if (client.link != link_) return connection.end(home_lost);
    client.room -= static_cast<std::int64_t>(packet.size());
    put(client, EdgeFrameKind::bytes, as_text(packet));
}

bool ForwardedClients::must_wait(const Connection& connection) const {
    const auto found = clients_.find(&connection);
    if (found == clients_.end() || link_ == 0 || found->second.link != link_) return false;
    return found->second.room <= 0 || output_.size() > LinkExchange::enough ||
           (is_congested_ && exchange_->waiting(link_) > LinkExchange::enough);
}

void ForwardedClients::drained(const Connection& connection) {
    const auto found = clients_.find(&connection);
    if (found == clients_.end()) return;
    std::string contents;
    append_number(contents, std::exchange(found->second.unreported, 0));
    put(found->second, EdgeFrameKind::taken, contents);
}

void ForwardedClients::ended(const Connection& connection, const Ending& ending) {
    const auto found = clients_.find(&connection);
    if (found == clients_.end()) return;
    const Client client = found->second;
    clients_.erase(found);
    if (client.link == link_) by_number_.erase(client.number);
    std::string contents = encode_end(ending.cause, ending.reason);
    append_number(contents, static_cast<std::uint32_t>(monotonic_now() - connection.last_packet()));
    put(client, EdgeFrameKind::end, contents);
}

// -- from the home --

void ForwardedClients::receive(const LinkMail& mail) {
    thread_.assert_here();
    if (mail.kind == LinkMail::Kind::begun) return begin(mail);
    if (mail.link != link_) return;
    if (mail.kind == LinkMail::Kind::ended) return lose(link_);
    if (mail.kind == LinkMail::Kind::cut_off) cut_off_ = monotonic_now() - mail.silence;
    if (mail.kind == LinkMail::Kind::connected) cut_off_.reset();
    std::string_view frames = mail.frames;
    while (const auto frame = take_edge_frame(frames)) receive(*frame);
}

void ForwardedClients::begin(const LinkMail& mail) {
    if (link_ != 0) lose(link_);
    link_ = mail.link;
    homes_ = Homes(mail.peer_shards);
    tells_bans_ = shard_ == 0 && mail.version >= link_version_of_bans;
    lifts_known_ = 0;
    is_released_ = false;
    if (tells_bans_) tell_bans();
    if (shard_ == 0 && mail.version >= link_version_of_home_bans)
        address_limits_.begin_home_bans();
    else if (shard_ == 0)
        address_limits_.forget_home_bans();
    leave_some();
}

void ForwardedClients::receive(const EdgeFrame& frame) {
    if (frame.kind == EdgeFrameKind::lift) return hear_lift(frame);
    if (frame.kind == EdgeFrameKind::home_ban) return hear_ban(frame);
    const auto found = by_number_.find(frame.number);
    if (found == by_number_.end()) return disown(frame);
    Connection& connection = *found->second;
    const boost::intrusive_ptr alive(&connection);
    Client& client = clients_.at(&connection);
    switch (frame.kind) {
        case EdgeFrameKind::bytes:
            client.unreported += static_cast<std::uint32_t>(frame.contents.size());
            connection.send(frame.contents);
            if (client.unreported >= Channel::report) connection.notify_when_drained();
            return;
        case EdgeFrameKind::taken:
            client.room = std::min<std::int64_t>(client.room + frame.number_at(0), Channel::window);
            return;
        case EdgeFrameKind::accepted:
            return connection.go_on_forwarding(frame.number_at(0), frame.number_at(4));
        case EdgeFrameKind::ask: {
            if (connection.held() && connection.peer_gone()) return connection.end(gone_early);
            const Millis silence = monotonic_now() - connection.last_packet();
            std::string contents;
            append_number(contents, static_cast<std::uint32_t>(silence));
            return put(client, EdgeFrameKind::silence, contents);
        }
        case EdgeFrameKind::end: {
            if (frame.contents.ends_with(old_answer) && frame.contents.size() > 2)
                authenticator_.forget_hook_answers();
            auto ending = decode_end(frame.contents).value_or(home_lost);
            ending.reason = Reason::success;  // the home has sent the DISCONNECT
            ending.why = "";                  // and written its log
            by_number_.erase(client.number);
            clients_.erase(&connection);
            return connection.end(ending);
        }
        case EdgeFrameKind::open:
        case EdgeFrameKind::silence:
        case EdgeFrameKind::ban:
        case EdgeFrameKind::lift:
        case EdgeFrameKind::home_ban: return;
    }
}

/// The client has ended here, and the home was told. If the home still asks about it, it may not
/// have understood that. The cause is one that does no harm if the home has only been faster to ask
/// than to handle the end: the client may come back within its limit of silence.
void ForwardedClients::disown(const EdgeFrame& frame) {
    if (frame.kind != EdgeFrameKind::ask) return;
    put_frame({.kind = EdgeFrameKind::end,
               .home_shard = frame.home_shard,
               .edge_shard = shard_,
               .number = frame.number,
               .contents = encode_end(Cause::shutdown, Reason::success)});
}

// -- bans --

void ForwardedClients::tell_ban(const Address& address) {
    thread_.assert_here();
    // A local address means another machine to the home.
    if (link_ == 0 || !tells_bans_ || address.is_local()) return;
    const auto left = address_limits_.ban_left(address, monotonic_now());
    if (!left) return;  // it was lifted meanwhile, or the home has ordered another one
    const ToldBan ban{.address = address, .left = *left, .lifts_known = lifts_known_};
    put_frame({.kind = EdgeFrameKind::ban, .contents = encode(ban)});
}

/// Another home may not know them.
void ForwardedClients::tell_bans() {
    std::size_t told = 0;
    std::optional<std::uint64_t> next = 0;
    while (next && told < most_bans_at_begin) {
        const BanPage page = address_limits_.bans(*next, most_bans_at_begin, monotonic_now());
        for (const Ban& ban : page.bans)
            if (const auto address = Address::parse(ban.address)) tell_ban(*address);
        told += page.bans.size();
        next = page.next;
    }
}

void ForwardedClients::hear_lift(const EdgeFrame& frame) {
    const auto lift = decode_lift(frame.contents);
    if (!lift) return;
    // A lift may come twice: with the others at the link's begin, and by itself.
    lifts_known_ = std::max(lifts_known_, lift->number);
    static_cast<void>(address_limits_.lift_ban(lift->address, monotonic_now()));
}

/// With it, this node refuses a banned address before it checks a password. The home refuses its
/// logins anyway, but only behind the check.
void ForwardedClients::hear_ban(const EdgeFrame& frame) {
    if (shard_ != 0) return;
    if (frame.contents == end_of_home_bans) return address_limits_.end_home_bans();
    const auto ban = decode_home_ban(frame.contents);
    if (!ban) return;
    address_limits_.hear_home_ban(ban->address, ban->left, ban->ordered, monotonic_now());
}

// -- to the home --

void ForwardedClients::put(const Client& client, EdgeFrameKind kind, std::string_view contents) {
    if (client.link != link_ || link_ == 0) return;
    put_frame({.kind = kind,
               .home_shard = client.home,
               .edge_shard = shard_,
               .number = client.number,
               .contents = contents});
}

void ForwardedClients::put_frame(const EdgeFrame& frame) {
    if (output_.empty()) rounds_.later([this] { flush(); });
    append(output_, frame);
}

void ForwardedClients::flush() {
    is_congested_ = link_ != 0 && exchange_->send(link_, output_) > LinkExchange::enough;
    output_.clear();
    if (output_.capacity() > LinkExchange::enough) free_memory(output_);
}

// -- without a link --

void ForwardedClients::lose(std::uint64_t link) {
    if (link != link_) return;
    // If some clients of an earlier link have not left yet, the earlier `lost_` stays, because they
    // must leave in time, too.
    const bool are_all_of_this_link = by_number_.size() == clients_.size();
    link_ = 0;
    if (are_all_of_this_link) lost_ = cut_off_.value_or(monotonic_now());
    cut_off_.reset();
    by_number_.clear();
    output_.clear();
    leave_some();
}

void ForwardedClients::release() {
    thread_.assert_here();
    if (link_ != 0 || std::exchange(is_released_, true)) return;
    leave_some();
}

/// Clients leave when there is a home again, or when only this node has lost it. They also leave
/// when half of their limit of silence has passed since the home was last heard, because the home
/// declares them offline when all of it has passed. If this node stood still, the home has noticed
/// earlier that the link is cut off.
void ForwardedClients::leave_some() {
    const Millis now = monotonic_now();
    std::vector<Connection*> leaving;
    const bool may_leave = link_ != 0 || is_released_;
    bool are_left = false;
    for (const auto& [connection, client] : clients_) {
        if (client.link == link_) continue;
        are_left = true;
        const bool is_urgent = now - lost_ >= connection->limit() / 2;
        if (!is_urgent && (!may_leave || leaving.size() >= leave_at_once)) continue;
        leaving.push_back(const_cast<Connection*>(connection));
    }
    for (Connection* const each : leaving) each->end(home_lost);
    if (are_left) rounds_.after(leaving_, leave_pause, [this] { leave_some(); });
}

}  // namespace pulsegate
