#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/store/ledger/ledger.h"

namespace pulsegate {

/// What a ledger has stored, in the plainest way: the contents of its tables. It is a model when
/// units are applied to it, and a copy of a real ledger when that loads into it; both are compared
/// as text.
class StoredState : public Ledger::Visitor {
public:
    /// Returns how many delayed messages it has cancelled.
    std::size_t apply(const Unit& unit);

    /// Fills it from a ledger that was just opened, bodies of messages included.
    Ledger::Start read(Ledger& ledger);

    /// One line for each thing.
    std::string text() const;

    bool waits(OwnerId owner, Stamp stamp) const { return waiting_.contains({stamp, owner}); }
    bool has_owner(OwnerKind kind, const std::string& user, const std::string& client) const;
    std::vector<Stamp> stamps() const;

    void owner(const PutOwner& put) override;
    void subscription(const PutSubscription& put) override;
    void session_expiry(PutSessionExpiry put) override;
    void incoming(PutIncoming put) override;
    void exchange(PutExchange put, bool released) override;
    void will(const PutWill& put) override;
    void waiting(const WaitingMessage& message, const Receiver& receiver) override;
    void retained(const PutRetained& put) override;
    void user(const PutUser& put) override;
    void ban(const PutBan& put) override;
    void revocation(const PutRevocation& put) override;
    void member(const PutMember& put) override;
    void room_position(const PutRoomPosition& put) override;

private:
    using Line = std::string;
    using Packet = std::pair<OwnerId, std::uint16_t>;

    void apply_one(const Operation& operation);
    void put(const PutMessage& put);
    void receiver(const PutReceiver& put);
    void apply_early(const WaitingMessage& message);
    void forget_done();
    void done(const Done& done);
    void end(OwnerId owner);
    void end_session(OwnerId owner);
    void retire(OwnerId owner);
    void release(const ReleaseExchange& release);
    void delayed(const PutDelayed& put);
    void dead_letter(const DeadLetter& letter);
    void read_events(Ledger& ledger);
    std::size_t cancel(const CancelDelayed& cancel);
    void retain(Stamp stamp, const std::string& topic, const Line& line);
    bool known(OwnerId owner) const { return owners_.contains(owner); }

    std::map<OwnerId, PutOwner> owners_;
    std::map<std::pair<OwnerId, std::string>, PutSubscription> subscriptions_;
    std::map<OwnerId, std::pair<WallMillis, Stamp>> absences_;
    std::set<Packet> incoming_;
    std::map<Packet, std::tuple<Stamp, QoS, bool>> exchanges_;
    std::map<OwnerId, Line> wills_;
    std::map<Stamp, Line> bodies_;
    std::map<std::pair<Stamp, OwnerId>, Line> waiting_;
    std::map<std::string, std::pair<Stamp, Line>> retained_;  ///< an empty line: dropped
    std::map<std::uint64_t, std::tuple<std::string, std::optional<std::string>, Line>> delayed_;
    std::map<std::string, Line> users_;
    std::map<std::array<std::string, 3>, std::pair<WallMillis, Line>> bans_;
    std::map<std::string, std::int64_t> revocations_;
    std::map<std::pair<std::string, std::string>, Stamp> members_;
    std::map<std::string, Stamp> room_positions_;
    std::map<Stamp, WaitingMessage> about_;                ///< of those that somebody waits for
    std::map<std::pair<Stamp, OwnerId>, Receiver> early_;  ///< they came before their message
    std::map<EventNumber, Line> events_;
    std::map<EventNumber, Line> dead_letters_;
};

/// A message with this content.
MessageRef message(std::string topic, std::string payload, std::string properties = "");

}  // namespace pulsegate
