#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/session/broker.h"
#include "server/store/memory_store.h"

namespace pulsegate {

/// A link whose client reads when it pleases: it keeps the bytes. What it is told to do happens at
/// the end of the turn, which `Company::end_turn` is.
class KeptLink final : public Link {
public:
    explicit KeptLink(unsigned home) : shard(home) {}

    void send(std::string_view packets) override {
        if (!ending) bytes.append(packets);
    }
    void end(const Ending& why) override {
        if (!ending) ending = why;
    }
    std::size_t backlog() const override { return stuck ? std::size_t{1} << 30 : 0; }
    void tell_when_drained() override { tell_drained = true; }
    bool broken() const override { return false; }
    Millis last_packet() const override { return heard; }
    std::string peer() const override { return "a client"; }
    void set_limit(Millis) override {}
    void set_largest_packet(std::uint32_t) override {}

    const unsigned shard;
    std::string bytes;
    std::optional<Ending> ending;
    bool tell_drained = false;
    bool stuck = false;  ///< its socket takes nothing
    Millis heard = 0;
};

/// A store that knows how much is in it.
class CountingStore final : public Store {
public:
    void push(SessionId session, Delivery delivery) override {
        ++sizes_[session];
        queues_.push(session, std::move(delivery));
    }
    std::optional<Delivery> pop(SessionId session) override {
        auto oldest = queues_.pop(session);
        if (oldest && --sizes_[session] == 0) sizes_.erase(session);
        return oldest;
    }
    void forget(SessionId session) override {
        sizes_.erase(session);
        queues_.forget(session);
    }

    std::size_t queues() const { return sizes_.size(); }
    std::size_t longest() const;

private:
    MemoryStore queues_;
    std::map<SessionId, std::size_t> sizes_;
};

/// The brokers of a gateway's shards without the gateway: no socket, no thread, and a clock that
/// stands until it is moved. Mail from one shard to another waits until it is delivered, in order
/// between the two of them and in no order otherwise.
class Company {
public:
    using Mail = std::variant<MessageRef, Letter>;

    /// What a broker asked to be sent to all, and the shards that it was not sent to, because their
    /// interest said that nobody wants it.
    struct Forwarded {
        MessageRef message;
        std::vector<unsigned> spared;
    };

    Company(const BrokerSettings& settings, unsigned shards);

    unsigned shards() const { return static_cast<unsigned>(offices_.size()); }
    Broker& broker(unsigned shard) { return offices_[shard]->broker; }
    const CountingStore& store(unsigned shard) const { return offices_[shard]->store; }
    const Interest& interest(unsigned shard) const { return offices_[shard]->own_interest; }

    /// Of all shards.
    std::uint64_t sum(std::uint64_t Counters::*counter) const;

    /// The brokers must hear of it with the next call.
    void adopt(KeptLink& link) { links_.push_back(&link); }

    /// As a shard does after each event: ends what is to end, and says who has drained.
    void end_turn();

    bool has_mail() const { return !pairs_with_mail().empty(); }
    using Pair = std::pair<unsigned, unsigned>;
    std::vector<Pair> pairs_with_mail() const;
    /// Delivers the oldest between two shards, and returns what it was if it was a message.
    MessageRef deliver(Pair pair);

    /// What was published since the last call.
    std::vector<Forwarded> take_forwarded() { return std::exchange(forwarded_, {}); }

    Millis now = 1'000'500;

private:
    struct Office final : Surroundings {
        Office(Company& all, const BrokerSettings& settings, unsigned shard, unsigned count)
            : company(all),
              index(shard),
              broker(settings, shard, count, own_interest, store, counters, *this) {}

        void forward(const MessageRef& message, std::optional<unsigned> inbox) override {
            company.forward(index, message, inbox);
        }
        void send(unsigned shard, Letter letter) override {
            company.mail_[{index, shard}].push_back(std::move(letter));
        }
        Interest& interest(unsigned shard) override {
            return company.offices_[shard]->own_interest;
        }
        void record(PresenceChange) override {}

        Company& company;
        const unsigned index;
        Interest own_interest;
        CountingStore store;
        Counters counters;
        Broker broker;
    };

    void forward(unsigned from, const MessageRef& message, std::optional<unsigned> inbox);

    const BrokerSettings settings_;
    std::vector<std::unique_ptr<Office>> offices_;
    std::map<Pair, std::deque<Mail>> mail_;
    std::list<KeptLink*> links_;
    std::vector<Forwarded> forwarded_;
};

}  // namespace pulsegate
