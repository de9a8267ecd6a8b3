#include "server/edge/edge_channels.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "protocol/decode.h"
#include "server/base/log.h"
#include "server/limits/address_limits.h"
#include "server/login/login_flow.h"
#include "server/session/life/logins.h"
#include "server/session/life/passed_parts.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

namespace {

constexpr std::size_t lost_a_turn = 256;
constexpr std::size_t bans_told_a_turn = 500;

/// How many bytes clients may add to the frames for a link in a round.
constexpr std::size_t most_in_a_round = std::size_t{1} << 20;
constexpr std::chrono::milliseconds look_pause{2};

/// For an end that can't be understood: the client would be online for ever without it.
const Ending ended_anyhow{Cause::connection_lost, Reason::success, ended_by_edge};

/// Nothing if the bytes are not a CONNECT.
std::optional<ReceivedConnect> received_connect(std::string_view bytes) {
    ReceivedConnect received{{bytes.begin(), bytes.end()}, {}};
    const Decoded decoded = decode(received.bytes, Version::v3_1_1, Sender::client);
    const auto* packet = std::get_if<Packet>(&decoded);
    const auto* connect = packet ? std::get_if<Connect>(packet) : nullptr;
    if (!connect) return std::nullopt;
    received.connect = *connect;
    return received;
}

boost::asio::ip::tcp::endpoint client_endpoint(const ForwardedLogin& login) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(login.address, error);
    return {error ? boost::asio::ip::address() : address, login.port};
}

}  // namespace

void EdgeChannels::note_connection(Output& output, LinkMail::Kind kind) {
    const Millis now = monotonic_now();
    if (kind == LinkMail::Kind::cut_off) {
        output.cut_off = now;
        output.postponed = transport_.postponed();
    }
    if (kind != LinkMail::Kind::connected || !output.cut_off) return;
    output.connected = now;
    output.outage = std::max<Millis>(now - *output.cut_off, 1);
    output.cut_off.reset();
}

std::size_t hash_value(const ChannelName& name) {
    std::size_t seed = 0;
    boost::hash_combine(seed, name.link);
    boost::hash_combine(seed, name.number);
    boost::hash_combine(seed, name.shard);
    return seed;
}

// -- from the edges --

void EdgeChannels::receive(const LinkMail& mail) {
    thread_.assert_here();
    if (mail.kind == LinkMail::Kind::begun) begin(mail);
    if (mail.kind == LinkMail::Kind::ended) return lose(mail.link);
    const auto output = outputs_.find(mail.link);
    if (output != outputs_.end() && mail.kind != LinkMail::Kind::frames)
        note_connection(output->second, mail.kind);
    std::string_view frames = mail.frames;
    while (const auto frame = take_edge_frame(frames)) receive(*frame, mail.link);
}

void EdgeChannels::receive(const EdgeFrame& frame, std::uint64_t link) {
    const ChannelName name{.link = link, .number = frame.number, .shard = frame.edge_shard};
    if (frame.kind == EdgeFrameKind::open) return open(name, frame);
    if (frame.kind == EdgeFrameKind::ban) return hear_ban(frame);
    const auto found = connections_.find(name);
    if (found == connections_.end()) return;  // the connection has ended here meanwhile
    const boost::intrusive_ptr connection(found->second);
    if (frame.kind == EdgeFrameKind::silence) {
        connection->hear_silence(frame.number_at(0));
        return flow_.edge_answered(*connection);
    }
    Channel& channel = *connection->channel();
    if (frame.kind == EdgeFrameKind::bytes) return channel.arrive(frame.contents);
    if (frame.kind == EdgeFrameKind::taken) return channel.widen(frame.number_at(0));
    if (frame.kind != EdgeFrameKind::end) return;
    const Ending ending = decode_end(frame.contents).value_or(ended_anyhow);
    constexpr std::size_t behind_reason = 2;
    if (frame.contents.size() > behind_reason)
        connection->hear_silence(frame.number_at(behind_reason));
    // The edge stops, and has told the client to connect again.
    if (ending.cause == Cause::shutdown)
        return connection->lose_edge(monotonic_now(), transport_.postponed());
    channel.arrive_end(ending);
    flow_.edge_answered(*connection);
}

/// Without their outputs, all channels are cut off.
void EdgeChannels::leave_clients_to_next_home() {
    thread_.assert_here();
    flush();
    outputs_.clear();
}

void EdgeChannels::begin(const LinkMail& mail) {
    Output& output = outputs_.try_emplace(mail.link).first->second;
    output.node = mail.node;
    output.hears_lifts = shard_ == 0 && mail.version >= link_version_of_bans;
    if (!output.hears_lifts) return;
    // The edge may have had no link when they were lifted.
    for (const BanLift& lift : address_limits_.lifts(monotonic_now())) tell_lift(mail.link, lift);
    output.hears_bans = mail.version >= link_version_of_home_bans;
    if (!output.hears_bans) return;
    output.untold_bans = 0;
    if (!std::exchange(tells_bans_, true)) rounds_.later([this] { tell_some_bans(); });
    rounds_.go_on();
}

/// Tells edges that have just connected of the bans at this node, some in each round.
void EdgeChannels::tell_some_bans() {
    tells_bans_ = false;
    for (auto& [link, output] : outputs_) {
        if (!output.untold_bans) continue;
        const BanPage page =
            address_limits_.bans(*output.untold_bans, bans_told_a_turn, monotonic_now());
        for (const Ban& ban : page.bans)
            if (const auto address = Address::parse(ban.address))
                tell_ban(link, {*address, ban.left.value_or(for_good), ban.cause.ordered});
        output.untold_bans = page.next;
        if (!page.next) put_home_ban(link, end_of_home_bans);
        tells_bans_ = tells_bans_ || page.next;
    }
    if (!tells_bans_) return;
    rounds_.later([this] { tell_some_bans(); });
    rounds_.go_on();
}

void EdgeChannels::tell_ban(const Address& address) {
    thread_.assert_here();
    const Millis now = monotonic_now();
    const auto left = address_limits_.ban_left(address, now);
    const auto cause = address_limits_.banned(address, now);
    if (!left || !cause) return;  // it was lifted meanwhile
    const HomeBan ban{.address = address, .left = *left, .ordered = cause->ordered};
    for (const auto& [link, output] : outputs_)
        if (output.hears_bans) tell_ban(link, ban);
}

void EdgeChannels::tell_ban(std::uint64_t link, const HomeBan& ban) {
    if (ban.address.is_local()) return;  // it means another machine to the edge
    put_home_ban(link, encode(ban));
}

void EdgeChannels::put_home_ban(std::uint64_t link, std::string_view contents) {
    put({.link = link, .number = 0, .shard = 0}, EdgeFrameKind::home_ban, contents);
}

void EdgeChannels::hear_ban(const EdgeFrame& frame) {
    ++work_;
    const auto ban = decode_ban(frame.contents);
    if (!ban ||
        !address_limits_.hear_ban(ban->address, ban->left, ban->lifts_known, monotonic_now()))
        return;
    log_limited(spdlog::level::warn,
                "{} banned by an edge: too many wrong passwords from there (ban-failures). DELETE "
                "/api/v1/bans?address={} lifts the ban",
                LoggedAddress{ban->address.text()}, ban->address.text());
    tell_ban(ban->address);
}

void EdgeChannels::tell_lift(const BanLift& lift) {
    thread_.assert_here();
    for (const auto& [link, output] : outputs_)
        if (output.hears_lifts) tell_lift(link, lift);
}

void EdgeChannels::tell_lift(std::uint64_t link, const BanLift& lift) {
    put({.link = link, .number = 0, .shard = 0}, EdgeFrameKind::lift, encode(lift));
}

/// Logs in a client. If the login can't be understood, its channel ends at once; this is the
/// answer.
void EdgeChannels::open(const ChannelName& name, const EdgeFrame& frame) {
    if (connections_.contains(name)) return;
    work_ += login_work;
    ChannelPeer& peer = *this;
    auto channel = std::make_unique<Channel>(name, peer);
    auto login = decode_forwarded_login(frame.contents);
    auto received = login ? received_connect(login->connect) : std::nullopt;
    auto result = login ? auth_result(login->authorization) : std::nullopt;
    if (!received || !result)
        return log_limited(
            spdlog::level::err,
            "link {}: can't read a login from the edge, which may run a later version", name.link);
    result->user = std::move(login->user);
    result->client = std::move(login->client);
    const auto line = logins_.line_of(login->password_line);
    if (!line) {
        result->reason = Reason::not_authorized;
        result->why =
            "the owner's password file does not have the line that the edge matched; give all "
            "nodes the same file";
    }
    result->password_line = line.value_or(0);
    if (login->hook_age) {
        result->on_link = time_on_link(name.link);
        result->asked = monotonic_now() - static_cast<Millis>(*login->hook_age) - result->on_link;
    }
    auto connection = transport_.adopt(std::move(channel), client_endpoint(*login), login->listener,
                                       received->connect.version);
    connections_.emplace(name, connection.get());
    if (const auto output = outputs_.find(name.link); output != outputs_.end())
        ++output->second.clients;
    flow_.enter_from_edge(std::move(connection), *std::move(received), *std::move(result));
}

/// The longest time for which a frame that arrives now may have been under way. A connection is
/// lost after `until_noticed` of silence, and an edge may notice that before this node.
Millis EdgeChannels::time_on_link(std::uint64_t link) const {
    constexpr Millis until_noticed = 4'000;
    constexpr Millis until_sent_again = 10'000;
    const auto output = outputs_.find(link);
    if (output == outputs_.end() || output->second.outage == 0) return until_noticed;
    const bool is_recent = monotonic_now() - output->second.connected < until_sent_again;
    return until_noticed + (is_recent ? output->second.outage : 0);
}

/// The clients of the link have lost their edge. Nothing was heard from them since the link was cut
/// off. Time in which this node stood still since then does not count.
void EdgeChannels::lose(std::uint64_t link) {
    const auto output = outputs_.find(link);
    Millis since = monotonic_now();
    if (output != outputs_.end() && output->second.cut_off) {
        const Tick postponed = transport_.postponed() - output->second.postponed;
        since = std::min(since, *output->second.cut_off + Millis{postponed} * tick_length);
    }
    outputs_.erase(link);
    for (const auto& [name, connection] : connections_)
        if (name.link == link) lost_.push_back({connection, since, transport_.postponed()});
    if (!lost_.empty()) rounds_.later([this] { lose_some_edges(); });
    rounds_.go_on();
}

/// Takes some clients in each round, because an edge may have so many that all at once would delay
/// other clients.
void EdgeChannels::lose_some_edges() {
    for (std::size_t i = 0; i < lost_a_turn && !lost_.empty(); ++i) {
        lost_.back().connection->lose_edge(lost_.back().since, lost_.back().postponed);
        lost_.pop_back();
    }
    transport_.end_turn();
    if (lost_.empty()) return;
    rounds_.later([this] { lose_some_edges(); });
    rounds_.go_on();
}

// -- to the edges --

void EdgeChannels::send(const ChannelName& channel, std::string_view bytes) {
    put(channel, EdgeFrameKind::bytes, bytes);
}

void EdgeChannels::tell_taken(const ChannelName& channel, std::uint32_t bytes) {
    std::string contents;
    append_number(contents, bytes);
    put(channel, EdgeFrameKind::taken, contents);
}

void EdgeChannels::tell_accepted(const ChannelName& channel, Millis limit,
                                 std::uint32_t largest_packet) {
    std::string contents;
    append_number(contents, static_cast<std::uint32_t>(limit));
    append_number(contents, largest_packet);
    put(channel, EdgeFrameKind::accepted, contents);
}

void EdgeChannels::ask_silence(const ChannelName& channel) { put(channel, EdgeFrameKind::ask, ""); }

bool EdgeChannels::is_cut_off(const ChannelName& channel) const {
    const auto found = outputs_.find(channel.link);
    return found == outputs_.end() || found->second.cut_off;
}

void EdgeChannels::forget(const ChannelName& channel, const ChannelEnd& end) {
    std::string contents = encode_end(end.cause, Reason::success);
    if (end.has_old_answer) contents += old_answer;
    put(channel, EdgeFrameKind::end, contents);
    if (connections_.erase(channel) == 0) return;
    if (const auto output = outputs_.find(channel.link); output != outputs_.end())
        --output->second.clients;
}

std::size_t EdgeChannels::linked_clients() const {
    std::size_t clients = 0;
    for (const auto& [link, output] : outputs_) clients += output.clients;
    return clients;
}

std::vector<std::pair<std::string, std::size_t>> EdgeChannels::linked() const {
    std::vector<std::pair<std::string, std::size_t>> edges;
    for (const auto& [link, output] : outputs_) edges.emplace_back(output.node, output.clients);
    return edges;
}

void EdgeChannels::put(const ChannelName& channel, EdgeFrameKind kind, std::string_view contents) {
    const auto found = outputs_.find(channel.link);
    if (found == outputs_.end()) return;
    if (!std::exchange(is_flush_due_, true)) rounds_.later([this] { flush(); });
    append(found->second.frames, {.kind = kind,
                                  .home_shard = shard_,
                                  .edge_shard = channel.shard,
                                  .number = channel.number,
                                  .contents = contents});
}

void EdgeChannels::flush() {
    is_flush_due_ = false;
    rounds_.guard();
    for (auto& [link, output] : outputs_) {
        if (output.frames.empty()) continue;
        output.waiting = exchange_->send(link, output.frames);
        output.frames.clear();
    }
}

/// False if too much waits for the link. Then the client's data waits in its own queue, where it
/// counts against the limits.
bool EdgeChannels::may_send(const ChannelName& channel) {
    const auto found = outputs_.find(channel.link);
    if (found == outputs_.end()) return true;
    Output& output = found->second;
    if (output.frames.size() < most_in_a_round && output.waiting < LinkExchange::enough)
        return true;
    if (output.blocked.empty()) rounds_.after(resuming_, look_pause, [this] { go_on_sending(); });
    output.blocked.push_back(channel);
    return false;
}

void EdgeChannels::go_on_sending() {
    bool are_left = false;
    for (auto& [link, output] : outputs_) {
        output.waiting = exchange_->waiting(link);
        for (auto left = output.blocked.size(); left > 0; --left) {
            if (output.frames.size() >= most_in_a_round || output.waiting >= LinkExchange::enough)
                break;
            const auto found = connections_.find(output.blocked.front());
            output.blocked.pop_front();
            if (found == connections_.end()) continue;
            const boost::intrusive_ptr alive(found->second);
            alive->channel()->go_on();
        }
        are_left = are_left || !output.blocked.empty();
    }
    transport_.end_turn();
    if (are_left) rounds_.after(resuming_, look_pause, [this] { go_on_sending(); });
}

}  // namespace pulsegate
