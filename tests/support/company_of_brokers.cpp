#include "tests/support/company_of_brokers.h"

#include <algorithm>

namespace pulsegate {

std::size_t CountingStore::longest() const {
    std::size_t most = 0;
    for (const auto& [session, size] : sizes_) most = std::max(most, size);
    return most;
}

Company::Company(const BrokerSettings& settings, unsigned shards) : settings_(settings) {
    for (unsigned shard = 0; shard < shards; ++shard)
        offices_.push_back(std::make_unique<Office>(*this, settings_, shard, shards));
    for (auto& office : offices_) office->broker.tick(now);
}

std::uint64_t Company::sum(std::uint64_t Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& office : offices_) sum += office->counters.*counter;
    return sum;
}

void Company::end_turn() {
    for (bool quiet = false; !quiet;) {
        quiet = true;
        for (auto next = links_.begin(); next != links_.end();) {
            KeptLink& link = **next;
            Broker& home = broker(link.shard);
            if (link.ending) {
                if (link.session) home.end(*link.session, *link.ending, now);
                next = links_.erase(next);
                quiet = false;
                continue;
            }
            if (!link.stuck && link.session && std::exchange(link.tell_drained, false)) {
                home.drained(*link.session, now);
                quiet = false;
            }
            ++next;
        }
    }
}

void Company::forward(unsigned from, const MessageRef& message, std::optional<unsigned> inbox) {
    Forwarded forwarded{message, {}};
    const bool for_all = message->stamp != 0;
    for (const auto& office : offices_) {
        if (office->index == from) continue;
        if (for_all || office->index == inbox ||
            office->own_interest.wants(std::string_view(message->topic)))
            mail_[{from, office->index}].push_back(message);
        else
            forwarded.spared.push_back(office->index);
    }
    forwarded_.push_back(std::move(forwarded));
}

std::vector<Company::Pair> Company::pairs_with_mail() const {
    std::vector<Pair> pairs;
    for (const auto& [pair, mail] : mail_)
        if (!mail.empty()) pairs.push_back(pair);
    return pairs;
}

MessageRef Company::deliver(Pair pair) {
    auto& queue = mail_[pair];
    Mail mail = std::move(queue.front());
    queue.pop_front();
    Broker& reader = broker(pair.second);
    if (auto* letter = std::get_if<Letter>(&mail)) {
        reader.receive(*letter, now);
        return nullptr;
    }
    const auto& message = std::get<MessageRef>(mail);
    reader.deliver(message, now);
    return message;
}

}  // namespace pulsegate
