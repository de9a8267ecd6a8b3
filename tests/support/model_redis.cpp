#include "tests/support/model_redis.h"

namespace pulsegate {

void ModelRedis::remember(Millis now) {
    past_.emplace_back(now, state_);
    while (past_.front().first < now - 3000) past_.pop_front();
}

void ModelRedis::fail_over(Millis lost_since) {
    while (past_.size() > 1 && past_.back().first > lost_since) past_.pop_back();
    state_ = past_.back().second;
    ++run_;
}

std::optional<std::vector<Beat>> ModelRedis::beat(const Beat& beat, bool may_be_missing) {
    const auto known = state_.beats.find(beat.incarnation);
    if (known == state_.beats.end() ? !may_be_missing : known->second.is_condemned) return {};
    state_.beats[beat.incarnation] = beat;
    std::vector<Beat> all;
    for (const auto& [incarnation, each] : state_.beats) all.push_back(each);
    return all;
}

bool ModelRedis::condemn(const std::string& victim, std::uint64_t judged) {
    const auto known = state_.beats.find(victim);
    if (known == state_.beats.end()) return true;
    if (known->second.judged != judged) return false;
    known->second.is_condemned = true;
    return true;
}

bool ModelRedis::claim(std::size_t partition, const Token& seen, const Token& taken) {
    Token& token = state_.tokens[partition];
    if (token != seen || !is_condemned(token.owner) || is_condemned(taken.owner)) return false;
    token = taken;
    return true;
}

bool ModelRedis::write(std::size_t partition, const Token& token, const RowChange& change) {
    if (state_.tokens[partition] != token) return false;
    apply(partition, change);
    return true;
}

bool ModelRedis::confirm(std::size_t partition, const Token& token,
                         const std::vector<const RowChange*>& tail) {
    Token& stored = state_.tokens[partition];
    if (stored.epoch > token.epoch || (stored.epoch == token.epoch && stored.owner != token.owner))
        return false;
    stored = token;
    for (const RowChange* change : tail) apply(partition, *change);
    return true;
}

bool ModelRedis::is_condemned(const std::string& incarnation) const {
    const auto known = state_.beats.find(incarnation);
    return known == state_.beats.end() || known->second.is_condemned;
}

void ModelRedis::apply(std::size_t partition, const RowChange& change) {
    if (change.value)
        state_.rows[partition][change.key.field] = *change.value;
    else
        state_.rows[partition].erase(change.key.field);
}

}  // namespace pulsegate
