#include "server/restoration.h"

#include <spdlog/spdlog.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <future>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "server/message.h"
#include "server/session/shard_place.h"

namespace pulsegate {

namespace {

/// Messages that are read at once, so that few are in memory twice.
constexpr std::size_t messages_a_read = 4096;

/// Gives each broker what belongs to its shard.
class Restoration final : public Ledger::Visitor {
public:
    Restoration(const std::vector<Broker*>& brokers, Millis now) : brokers_(brokers), now_(now) {}

    void owner(const PutOwner& stored) override {
        const auto home = home_of(stored.user);
        homes_[stored.owner] = home;
        brokers_[home]->restore().owner(stored);
    }
    void subscription(const PutSubscription& stored) override {
        at(stored.owner).subscription(stored);
    }
    void absence(PutAbsence stored) override { at(stored.owner).absence(stored); }
    void incoming(PutIncoming stored) override { at(stored.owner).incoming(stored); }
    void exchange(PutExchange stored, bool released) override {
        at(stored.owner).exchange(stored, released);
    }
    void will(const PutWill& stored) override { at(stored.owner).will(stored); }
    void waiting(const WaitingMessage& stored, const Receiver& receiver) override {
        ++waiting_;
        if (!at(receiver.owner).waiting(stored, receiver))
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
        const auto kept = share(std::move(message));
        for (Broker* broker : brokers_) broker->restore().retained(kept, now_);
        ++retained_;
    }
    void user(const PutUser& stored) override {
        brokers_[home_of(stored.name)]->restore().user(stored);
        ++users_;
    }

    /// Reads the messages that were under way at QoS 2, and ends.
    void finish(Ledger& ledger) {
        for (std::size_t begin = 0; begin < under_way_.size();) begin = read_some(ledger, begin);
        for (Broker* broker : brokers_) broker->restore().finish(now_);
        if (!expired_.empty()) ledger.submit_lazily({std::move(expired_), {}});
        const auto delayed = ledger.delayed_total(std::nullopt).messages;
        if (homes_.empty() && retained_ == 0 && users_ == 0 && delayed == 0) return;
        spdlog::info(
            "restored: {} sessions, {} waiting messages, {} retained messages, {} delayed messages,"
            " {} users",
            homes_.size(), waiting_, retained_, delayed, users_);
    }

private:
    unsigned home_of(std::string_view user) const {
        return ShardPlace{0, static_cast<unsigned>(brokers_.size())}.home_of(user);
    }
    Restore& at(OwnerId owner) { return brokers_[homes_.at(owner)]->restore(); }

    /// Returns where to go on: behind all receivers of the last message.
    std::size_t read_some(Ledger& ledger, std::size_t begin) {
        std::vector<Stamp> stamps;
        std::size_t end = begin;
        for (; end < under_way_.size(); ++end) {
            const Stamp stamp = under_way_[end].first;
            if (!stamps.empty() && stamps.back() == stamp) continue;
            if (stamps.size() == messages_a_read) break;
            stamps.push_back(stamp);
        }
        const auto found = read(ledger, std::move(stamps));
        auto next = found.begin();
        MessageRef message;
        for (; begin < end; ++begin) {
            const auto& [stamp, receiver] = under_way_[begin];
            if (!message || message->stamp != stamp) {
                while (next != found.end() && next->stamp < stamp) ++next;
                if (next == found.end() || next->stamp != stamp) continue;  // a damaged row
                message = message_of(*next, now_);
            }
            at(receiver.owner).message(message, receiver);
        }
        return end;
    }

    /// Whoever began without them would take them for delivered.
    static std::vector<StoredMessage> read(Ledger& ledger, std::vector<Stamp> stamps) {
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
            throw std::runtime_error("can't read the messages that wait: the disk is in trouble");
        return *std::move(found);
    }

    const std::vector<Broker*>& brokers_;
    const Millis now_;
    boost::unordered_flat_map<OwnerId, unsigned> homes_;
    std::size_t waiting_ = 0;
    std::vector<std::pair<Stamp, Receiver>> under_way_;
    std::vector<Operation> expired_;
    std::size_t retained_ = 0;
    std::size_t users_ = 0;
};

}  // namespace

Ledger::Start restore(Ledger& ledger, const std::vector<Broker*>& brokers, Millis now) {
    Restoration restoration(brokers, now);
    const Ledger::Start start = ledger.load(restoration);
    restoration.finish(ledger);
    return start;
}

}  // namespace pulsegate
