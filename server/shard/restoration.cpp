#include "server/shard/restoration.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/message/message.h"
#include "server/session/life/restore.h"
#include "server/session/terms/homes.h"
#include "server/shard/plain_sessions.h"

namespace pulsegate {

namespace {

/// The most messages that are read at once, so that few are in memory twice.
constexpr std::size_t stamps_a_read = 4096;

/// Gives each shard its data.
class Restoration final : public Ledger::Visitor {
public:
    Restoration(const std::vector<Restore*>& shards, const std::function<Millis()>& clock)
        : shards_(shards), clock_(clock), now_(clock()) {}

    void expect(const StoredCounts& counts) override {
        owners_.reserve(counts.owners);
        users_.reserve(counts.users);
        const auto share = [&](std::size_t of_all) {  // they are spread almost evenly
            return of_all / shards_.size() + of_all / (32 * shards_.size());
        };
        const StoredCounts of_one{share(counts.owners), share(counts.subscriptions),
                                  share(counts.users)};
        for (Restore* shard : shards_) shard->expect(of_one);
    }
    void owner(const PutOwner& stored) override {
        if (stored.kind == OwnerKind::room) {
            logs_[stored.owner].owner = stored;
            return;
        }
        if (stored.kind == OwnerKind::retired || stored.expiry == 0) {
            retired_[stored.owner].owner = stored;
            return;
        }
        Owner owner{.id = stored.owner, .shard = home_of(stored.user)};
        owner.sent_before.was_connected = stored.kind == OwnerKind::session;
        if (PlainSessions::fits(stored))
            owner.plain = plain_.add(stored);
        else
            owner.session = home(owner).owner(stored);
        owners_.push_back(owner);
    }
    void subscription(const PutSubscription& stored) override {
        Owner* const owner = find(stored.owner);
        if (!owner || (!owner->session && plain_.add(owner->plain, stored))) return;
        home(*owner).subscription(session_of(*owner), stored);
    }
    void session_expiry(PutSessionExpiry stored) override {
        Owner* const owner = find(stored.owner);
        if (!owner) return;
        owner->session_expiry = stored;
        owner->sent_before.was_connected = false;
    }
    void incoming(PutIncoming stored) override {
        if (Owner* owner = find(stored.owner)) home(*owner).incoming(session_of(*owner), stored);
    }
    void exchange(PutExchange stored, bool released) override {
        const auto retired = retired_.find(stored.owner);
        if (retired != retired_.end() && stored.qos == QoS::exactly_once)
            retired->second.under_way.insert(stored.stamp);
        Owner* const owner = find(stored.owner);
        if (owner && stored.packet_id == 0)
            owner->sent_before.upto = stored.stamp;
        else if (owner)
            home(*owner).exchange(session_of(*owner), stored, released);
    }
    void will(const PutWill& stored) override {
        if (Owner* owner = find(stored.owner)) home(*owner).will(session_of(*owner), stored);
    }
    void waiting(const WaitingMessage& stored, const Receiver& receiver) override {
        if (!receiver.share) return wait(stored, receiver);
        Receiver member = receiver;  // one text for all messages of a group
        member.share = *shares_.insert(receiver.share).first;
        wait(stored, member);
    }
    void wait(const WaitingMessage& stored, const Receiver& receiver) {
        const auto log = logs_.find(receiver.owner);
        if (log != logs_.end()) return log->second.waiting.emplace_back(stored, receiver), void();
        const auto retired = retired_.find(receiver.owner);
        if (retired != retired_.end()) return retired->second.add(stored.stamp, receiver);
        Owner* const owner = find(receiver.owner);
        if (!owner) return;
        const Millis expires = monotonic(stored.expires);
        if (has_expired(expires, now_) && !home(*owner).is_under_way(stored.stamp, receiver))
            return home(*owner).expired(receiver.owner, stored.stamp);
        ++waiting_;
        SentBefore& sent_before = owner->sent_before;
        if (!owner->session && plain_.add(owner->plain, stored, receiver, expires,
                                          sent_before.includes(receiver, stored.stamp)))
            return;
        if (!home(*owner).waiting(session_of(*owner), stored, receiver, expires, sent_before))
            under_way_.emplace_back(stored.stamp, receiver);
    }
    void retained(const PutRetained& stored) override {
        if (stored.expires != 0 && stored.expires < wall_now()) {
            expired_.push_back(DropRetained{stored.stamp + 1, stored.message->topic});
            return;
        }
        Message message = *stored.message;
        message.qos = static_cast<QoS>(stored.flags & 3);
        message.retain = true;
        message.retained = true;
        message.stamp = stored.stamp;
        message.publisher = stored.publisher;
        message.sender = stored.sender;
        message.expires = as_monotonic_time(stored.expires, now_);
        message.seat = shards_.front()->seat_of(message);
        const auto kept = share(std::move(message));
        for (Restore* shard : shards_) shard->retained(kept, now_);
        ++retained_;
    }
    void user(const PutUser& stored) override { users_.push_back(stored); }
    void ban(const PutBan& stored) override {
        const WallMillis time = wall_now();
        if (stored.ends == 0 || stored.ends > time) return kept_out_.bans.push_back(stored);
        if (!std::exchange(bans_ended_, true)) expired_.push_back(DropEndedBans{time});
    }
    void member(const PutMember& stored) override { shards_[home_of(stored.user)]->member(stored); }
    void room_position(const PutRoomPosition& stored) override {
        room_positions_.push_back(stored);
    }
    void revocation(const PutRevocation& stored) override {
        kept_out_.revocations.push_back(stored);
    }

    KeptOut take_kept_out() { return std::move(kept_out_); }
    std::vector<Operation> take_expired() { return std::move(expired_); }
    /// Divides the logs of rooms for another number of shards. The old owners end after the new
    /// ones begin, or nobody would wait for the messages.
    std::vector<Operation> take_divided() {
        begun_.insert(begun_.end(), ended_.begin(), ended_.end());
        return std::move(begun_);
    }

    /// Reads the messages that were under way at QoS 2 or belong to shared subscriptions, and ends.
    void finish(Ledger& ledger, Ledger::Start& start) {
        read(ledger, under_way_, [&](const MessageRef& message, const Receiver& receiver) {
            Owner& owner = *find(receiver.owner);
            home(owner).message(session_of(owner), message, receiver, owner.sent_before);
        });
        for (Owner& owner : owners_) {
            if (may_be_awaited(owner))
                with_will_.emplace(owner.session->user.name, &owner);
            else if (!is_inbox(owner))
                begin_absence(owner);
        }
        for (Owner& owner : owners_)  // their lifetime depends on the other owners
            if (is_inbox(owner))
                home(owner).inbox_expiry(*owner.session, owner.session_expiry, now_);
        for (const auto& [id, owner] : retired_) retire(ledger, owner);
        for (Restore* shard : shards_) shard->begin_versions_at(start.version_floor);
        for (const PutUser& each : users_) restore_user(each);
        for (const auto& [user, owner] : with_will_) begin_absence(*owner);
        note_devices();
        for (const PutRoomPosition& each : room_positions_)
            shards_[home_of(each.user)]->room_position(each);
        restore_logs(start.owners);
        for (Restore* shard : shards_) shard->finish();
        const auto delayed = ledger.delayed_total(std::nullopt).messages;
        if (owners_.empty() && retained_ == 0 && users_.empty() && delayed == 0) return;
        spdlog::info(
            "restored: {} sessions, {} waiting messages, {} retained messages, {} delayed messages,"
            " {} users",
            owners_.size(), waiting_, retained_, delayed, users_.size());
    }

private:
    /// A session that is restored, or can be restored in one piece.
    struct Owner {
        OwnerId id;
        unsigned shard;
        Session* session = nullptr;  ///< null: only `plain` and its session expiry were read
        PlainSession plain{};
        PutSessionExpiry session_expiry{};
        SentBefore sent_before{};
    };

    /// The user's row tells when the will of a connected client is due.
    static bool may_be_awaited(const Owner& owner) {
        return owner.session && owner.session->state.will() && owner.session_expiry.ends == 0;
    }
    /// No client could come back before the store was read.
    void restore_user(const PutUser& stored) {
        Restore& home = *shards_[home_of(stored.name)];
        const auto until = home.user(stored, clock_());
        if (!until) return;
        const auto [first, last] = with_will_.equal_range(stored.name);
        for (auto each = first; each != last; ++each) {
            const Owner& owner = *each->second;
            home.awaited(*owner.session, owner.session_expiry, owner.sent_before, *until);
        }
        with_will_.erase(first, last);
    }

    /// The messages that wait for members of a room on one shard.
    struct Log {
        PutOwner owner{};
        std::vector<std::pair<WaitingMessage, Receiver>> waiting{};
    };

    /// Older versions did not store it for members with a device. If the next crash ended that
    /// device, the rooms would take such members for users who never had one and missed everything.
    void note_devices() {
        std::set<std::string_view> known;
        for (const PutRoomPosition& each : room_positions_) known.insert(each.user);
        for (const Owner& owner : owners_) {
            if (!owner.session || !home(owner).is_of_member(*owner.session)) continue;
            const bool is_new = known.insert(owner.session->user.name).second;
            if (is_new) home(owner).has_device(*owner.session);
        }
    }

    std::string place_in(std::size_t shard) const {
        return fmt::format("{}/{}", shard, shards_.size());
    }

    void restore_logs(OwnerRange& unused) {
        for (const auto& [owner, log] : logs_) {
            const auto shard = static_cast<std::size_t>(std::atoi(log.owner.client.c_str()));
            if (shard >= shards_.size() || log.owner.client != place_in(shard))
                merge(log);
            else
                restore_log(shard, log);
        }
        for (const auto& [topic, messages] : merged_) spread(topic, messages, unused);
    }

    void restore_log(std::size_t shard, const Log& log) {
        Restore& home = *shards_[shard];
        home.room(log.owner);
        for (const auto& [stored, receiver] : log.waiting) {
            const Millis expires = monotonic(stored.expires);
            if (has_expired(expires, now_))
                home.expired(receiver.owner, stored.stamp);
            else
                home.room_message(log.owner.user, stored, receiver, expires);
        }
    }

    /// The number of shards was another one, so the members were on other shards.
    void merge(const Log& log) {
        for (const auto& each : log.waiting)
            merged_[log.owner.user].emplace(each.first.stamp, each);
        ended_.push_back(EndOwner{log.owner.owner});
    }

    using Merged = std::map<Stamp, std::pair<WaitingMessage, Receiver>>;

    static OwnerId take_owner(OwnerRange& unused) {
        if (unused.size() == 0)
            throw std::runtime_error(
                "can't store what waits in the rooms for another number of shards: all session "
                "numbers are in use; start with the earlier number");
        return static_cast<OwnerId>(unused.first++);
    }

    /// Each shard gets all messages; the places of its members tell which of them they lack.
    void spread(const std::string& topic, const Merged& messages, OwnerRange& unused) {
        for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
            if (!shards_[shard]->has_members(topic)) continue;
            Log log{.owner = {.owner = take_owner(unused),
                              .kind = OwnerKind::room,
                              .user = topic,
                              .client = place_in(shard)}};
            begun_.push_back(log.owner);
            for (const auto& [stamp, message] : messages) {
                log.waiting.push_back(message);
                log.waiting.back().second.owner = log.owner.owner;
                begun_.push_back(PutReceiver{stamp, log.waiting.back().second});
            }
            restore_log(shard, log);
        }
    }

    /// The end of its time by the monotonic clock; never 0, which means "never".
    Millis monotonic(WallMillis when) const {
        return when == 0 ? 0 : std::max<Millis>(now_ + (when - wall_), 1);
    }

    unsigned home_of(std::string_view user) const { return Homes(shards_.size()).shard_of(user); }
    Restore& home(const Owner& owner) { return *shards_[owner.shard]; }

    StoredSession stored(const Owner& owner) {
        StoredSession session = plain_.get(owner.plain);
        session.owner = owner.id;
        session.session_expiry = owner.session_expiry;
        session.sent_before = owner.sent_before;
        return session;
    }
    Session& session_of(Owner& owner) {
        if (!owner.session) owner.session = &home(owner).unpacked(stored(owner));
        return *owner.session;
    }
    /// Only other sessions may be packed.
    static bool is_inbox(const Owner& owner) { return owner.session && owner.session->is_inbox(); }
    void begin_absence(Owner& owner) {
        if (!owner.session && home(owner).packed(stored(owner), now_)) return;
        home(owner).session_expiry(session_of(owner), owner.session_expiry, owner.sent_before,
                                   now_);
    }

    /// Null if the owner has ended. Most rows come in the order of owners; then it is the last
    /// row's owner, or the next one.
    Owner* find(OwnerId owner) {
        for (std::size_t place : {last_, last_ + 1})
            if (place < owners_.size() && owners_[place].id == owner)
                return &owners_[last_ = place];
        const auto found = std::ranges::lower_bound(owners_, owner, {}, &Owner::id);
        if (found == owners_.end() || found->id != owner) return nullptr;
        last_ = static_cast<std::size_t>(found - owners_.begin());
        return &*found;
    }

    /// Messages whose bodies are not read at the store's start, by ascending stamps.
    using Unread = std::vector<std::pair<Stamp, Receiver>>;

    /// An owner whose session has ended, with the process or before.
    struct Retired {
        PutOwner owner{};
        std::set<Stamp> under_way{};  ///< at QoS 2: no other client may get it (MQTT 5.0, 4.8.2)
        Unread shared{};              ///< messages that wait for another member of their group

        void add(Stamp stamp, const Receiver& receiver) {
            if (receiver.share && !under_way.contains(stamp)) shared.emplace_back(stamp, receiver);
        }
    };

    void retire(Ledger& ledger, const Retired& retired) {
        Restore& home = *shards_[home_of(retired.owner.user)];
        if (retired.shared.empty()) return home.end(retired.owner.owner);
        waiting_ += retired.shared.size();
        home.retired(retired.owner, retired.under_way, now_);
        read(ledger, retired.shared, [&](const MessageRef& message, const Receiver& receiver) {
            home.message(message, receiver);
        });
    }

    /// Calls `restore(message, receiver)` for each message.
    template <class Restore>
    void read(Ledger& ledger, const Unread& messages, Restore restore) {
        for (std::size_t begin = 0; begin < messages.size();)
            begin = read_some(ledger, messages, begin, restore);
    }

    /// Returns the place to continue, after all receivers of the last message.
    template <class Restore>
    std::size_t read_some(Ledger& ledger, const Unread& messages, std::size_t begin,
                          Restore restore) {
        std::vector<Stamp> stamps;
        std::size_t end = begin;
        for (; end < messages.size(); ++end) {
            const Stamp stamp = messages[end].first;
            if (!stamps.empty() && stamps.back() == stamp) continue;
            if (stamps.size() == stamps_a_read) break;
            stamps.push_back(stamp);
        }
        const auto found = read_bodies(ledger, std::move(stamps));
        auto next = found.begin();
        MessageRef message;
        for (; begin < end; ++begin) {
            const auto& [stamp, receiver] = messages[begin];
            if (!message || message->stamp != stamp) {
                while (next != found.end() && next->stamp < stamp) ++next;
                if (next == found.end() || next->stamp != stamp) {
                    note_damaged(stamp, receiver);
                    continue;
                }
                message = message_of(*next, now_);
            }
            restore(message, receiver);
        }
        return end;
    }

    /// The message's body is damaged or missing, so no client will get it.
    void note_damaged(Stamp stamp, const Receiver& receiver) {
        spdlog::error("message {} that waits for owner {} is damaged, and lost", stamp,
                      receiver.owner);
        expired_.push_back(Done{.owner = receiver.owner, .beyond = {stamp}});
    }

    /// Without them, the messages would be taken for delivered.
    static std::vector<StoredMessage> read_bodies(Ledger& ledger, std::vector<Stamp> stamps) {
        std::promise<std::optional<std::vector<StoredMessage>>> answer;
        ledger.read_messages(std::move(stamps),
                             [&](Outcome outcome, std::vector<StoredMessage> found) {
                                 if (outcome == Outcome::refused)
                                     answer.set_value(std::nullopt);
                                 else
                                     answer.set_value(std::move(found));
                             });
        auto found = answer.get_future().get();
        if (!found)
            throw std::runtime_error("can't read the messages that wait: the store is in trouble");
        return *std::move(found);
    }

    const std::vector<Restore*>& shards_;
    const std::function<Millis()>& clock_;
    const Millis now_;
    const WallMillis wall_ = wall_now();  ///< at the same moment
    std::vector<Owner> owners_;           ///< ascending
    PlainSessions plain_;
    std::size_t last_ = 0;  ///< place of the owner that was found last
    std::size_t waiting_ = 0;
    std::map<OwnerId, Log> logs_;
    std::map<std::string, Merged> merged_;
    std::vector<PutRoomPosition> room_positions_;
    Unread under_way_;
    std::map<OwnerId, Retired> retired_;
    struct ByText {
        bool operator()(const auto& a, const auto& b) const { return *a < *b; }
    };
    std::set<std::shared_ptr<const std::string>, ByText> shares_;
    std::vector<Operation> begun_;  ///< logs of shards that had none
    std::vector<Operation> ended_;  ///< logs of former shards
    std::vector<Operation> expired_;
    std::size_t retained_ = 0;
    std::vector<PutUser> users_;                         ///< restored after the sessions
    std::multimap<std::string_view, Owner*> with_will_;  ///< by their users
    KeptOut kept_out_;
    bool bans_ended_ = false;
};

/// In many units, because the store divides its work between units. No operation depends on
/// another.
void submit_expired(Ledger& ledger, std::vector<Operation> expired) {
    constexpr std::ptrdiff_t most = 100;
    for (auto next = expired.begin(); next != expired.end();) {
        const auto end = next + std::min(most, expired.end() - next);
        ledger.submit_lazily({{std::make_move_iterator(next), std::make_move_iterator(end)}, {}});
        next = end;
    }
}

}  // namespace

Restored restore(Ledger& ledger, const std::vector<Restore*>& shards,
                 const std::function<Millis()>& clock) {
    Restoration restoration(shards, clock);
    Ledger::Start start = ledger.load(restoration);
    set_stamp_floor(start.floor);  // places are stamps, too
    restoration.finish(ledger, start);
    return {.start = start,
            .kept_out = restoration.take_kept_out(),
            .divided = restoration.take_divided(),
            .expired = restoration.take_expired()};
}

void store_restored(Ledger& ledger, Restored& restored) {
    submit_expired(ledger, std::move(restored.expired));
    if (restored.divided.empty()) return;
    std::promise<Outcome> answer;
    ledger.submit({std::move(restored.divided),
                   [&](Outcome outcome, std::vector<Operation>&) { answer.set_value(outcome); }});
    // Without it, messages would be stored for logs that the store does not know.
    if (answer.get_future().get() != Outcome::committed)
        throw std::runtime_error(
            "can't store what waits in the rooms for another number of shards: the store is in"
            " trouble");
}

}  // namespace pulsegate
