#include "server/handover/limits_passage.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "server/limits/address.h"

namespace pulsegate {

namespace {

using AddressGuess = std::pair<Address, std::uint64_t>;

void put_key(CountsRecord::Counted& counted, const Address& address) {
    counted.address = address.text();
}
void put_key(CountsRecord::Counted& counted, std::uint64_t fingerprint) {
    counted.fingerprint = fingerprint;
}
void put_key(CountsRecord::Counted& counted, const AddressGuess& guess) {
    put_key(counted, guess.first);
    put_key(counted, guess.second);
}

void take_key(const CountsRecord::Counted& counted, Address& address) {
    address = Address::parse(counted.address).value_or(Address());
}
void take_key(const CountsRecord::Counted& counted, std::uint64_t& fingerprint) {
    fingerprint = counted.fingerprint;
}
void take_key(const CountsRecord::Counted& counted, AddressGuess& guess) {
    take_key(counted, guess.first);
    take_key(counted, guess.second);
}

template <class Pages>
CountsRecord counts_record(const Pages& pages) {
    CountsRecord record{.age = pages.age};
    record.counted.reserve(pages.counted.size());
    for (const auto& each : pages.counted) {
        auto& counted = record.counted.emplace_back();
        put_key(counted, each.key);
        counted.present = each.present;
        counted.past = each.past;
    }
    return record;
}

template <class Pages>
void take(const CountsRecord& record, Pages& pages) {
    pages.age = record.age;
    pages.counted.reserve(record.counted.size());
    for (const CountsRecord::Counted& each : record.counted) {
        auto& counted = pages.counted.emplace_back();
        take_key(each, counted.key);
        counted.present = each.present;
        counted.past = each.past;
    }
}

void add_bans(const std::vector<Ban>& bans, GatewayRecord& record) {
    record.bans.reserve(record.bans.size() + bans.size());
    for (const Ban& each : bans)
        record.bans.push_back({.address = each.address,
                               .user = each.user,
                               .client = each.client,
                               .is_ordered = each.cause.ordered,
                               .left = each.left,
                               .reason = each.cause.reason});
}

}  // namespace

void describe(AddressLimits& limits, GatewayRecord& record, Millis now) {
    const auto counts = limits.counts(now);
    record.guesses = counts_record(counts.guesses);
    record.different_guesses = counts_record(counts.different_guesses);
    record.failures = counts_record(counts.failures);
    add_bans(limits.bans(now), record);
}

void describe(ClientLimits& limits, GatewayRecord& record, Millis now) {
    const auto counts = limits.counts(now);
    record.shards.push_back(
        {.flaps = counts_record(counts.flaps), .takeovers = counts_record(counts.takeovers)});
    add_bans(limits.bans(now), record);
}

void adopt(AddressLimits& limits, const GatewayRecord& record, Millis now) {
    AddressLimits::Counts counts;
    take(record.guesses, counts.guesses);
    take(record.different_guesses, counts.different_guesses);
    take(record.failures, counts.failures);
    limits.adopt(counts, now);
}

void adopt(ClientLimits& limits, const ClientCountsRecord& record, Millis now) {
    ClientLimits::Counts counts;
    take(record.flaps, counts.flaps);
    take(record.takeovers, counts.takeovers);
    limits.adopt(counts, now);
}

Ban ban_of(const BanRecord& record) {
    return {.address = record.address,
            .user = record.user,
            .client = record.client,
            .left = record.left,
            .cause = {.ordered = record.is_ordered, .reason = record.reason}};
}

}  // namespace pulsegate
