#include "server/session/users/presence_entry.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "server/base/hash.h"

namespace pulsegate {

namespace {

/// Packed times from `since` to the last packet are in ms up to this one, twelve days, and in
/// seconds beyond it. So 34 years fit.
constexpr Millis longest_exact_time = Millis{1} << 30;

/// Rounds up, so that no time of silence is too long.
std::int32_t packed_time(Millis time) {
    constexpr Millis most = INT32_MAX;
    const Millis exact = std::clamp(time, -longest_exact_time, longest_exact_time);
    const Millis beyond = time - exact;
    const Millis seconds = beyond > 0 ? (beyond + 999) / 1000 : beyond / 1000;
    return static_cast<std::int32_t>(std::clamp(exact + seconds, -most, most));
}

Millis unpacked_time(std::int32_t time) {
    const Millis exact = std::clamp(Millis{time}, -longest_exact_time, longest_exact_time);
    return exact + (time - exact) * 1000;
}

/// If a user has more devices, only the latest ones are compared.
constexpr int devices_compared = 1000;

std::size_t allocation(const PackedRecord::Texts& texts, std::size_t messages,
                       std::size_t expiries) {
    return sizeof(PackedRecord) + messages * sizeof(QueuedHead) + expiries * sizeof(Millis) +
           texts.user.size() + texts.client.size() + texts.filter.size();
}

}  // namespace

std::string_view PresenceEntry::user_name() const {
    if (is_packed) return static_cast<const PackedRecord&>(*this).user();
    return static_cast<const User&>(*this).name;
}

PresencePosition PresenceEntry::position() const { return {version, keyed_hash(user_name())}; }

bool PresenceEntry::operator<(const PresenceEntry& other) const {
    if (version != other.version) return version < other.version;
    const auto hash = position().user;
    const auto others = other.position().user;
    return hash < others || (hash == others && user_name() < other.user_name());
}

void PresenceEntry::copy_presence(const PresenceEntry& other) {
    version = other.version;
    since = other.since;
    seen_after = other.seen_after;
    cause = other.cause;
    is_awaited = other.is_awaited;
    is_unannounced = other.is_unannounced;
    stayed = other.stayed;
}

WallMillis PresenceEntry::last_seen() const { return since + unpacked_time(seen_after); }

void PresenceEntry::set_since(WallMillis now, WallMillis seen) {
    since = now;
    seen_after = packed_time(seen - now);
}

bool User::has_device() const {
    return std::ranges::any_of(devices, [](const Device& each) { return !each.is_inbox(); });
}

Millis User::longest_limit() const {
    Millis longest = 0;
    int left = devices_compared;
    for (const Device& device : devices) {
        if (--left < 0) break;
        if (device.here) longest = std::max(longest, device.limit());
    }
    return longest;
}

PackedRecord::PackedRecord(const Texts& texts, std::size_t messages, std::size_t expiries,
                           Tick ends)
    : PresenceEntry(true),
      Absence(ends, true),
      user_size_(static_cast<std::uint8_t>(texts.user.size())),
      client_size_(static_cast<std::uint8_t>(texts.client.size())),
      filter_size_(static_cast<std::uint16_t>(texts.filter.size())),
      messages_(static_cast<std::uint8_t>(messages)),
      expiries_(static_cast<std::uint8_t>(expiries)) {
    sessions = 1;
    bytes = allocation(texts, 0, 0) & 0x3fff'ffff;
}

PackedRecord* PackedRecord::make(const Texts& texts, std::span<const PackedMessage> messages,
                                 Tick ends) {
    const bool any_expires =
        std::ranges::any_of(messages, [](const PackedMessage& each) { return each.expires != 0; });
    const std::size_t expiries = any_expires ? messages.size() : 0;
    void* const memory = ::operator new(allocation(texts, messages.size(), expiries));
    auto* const made = new (memory) PackedRecord(texts, messages.size(), expiries, ends);
    for (std::size_t i = 0; i < messages.size(); ++i)
        new (const_cast<QueuedHead*>(made->queue() + i)) QueuedHead(messages[i].head);
    for (std::size_t i = 0; i < expiries; ++i)
        new (const_cast<Millis*>(made->expiry_times() + i)) Millis(messages[i].expires);
    char* end = const_cast<char*>(made->text());
    for (const auto text : {texts.user, texts.client, texts.filter})
        end = std::ranges::copy(text, end).out;
    return made;
}

void PackedRecord::destroy(PackedRecord* record) {
    record->~PackedRecord();
    ::operator delete(record);
}

std::size_t PackedRecord::queued_bytes() const {
    std::size_t sum = 0;
    for (const QueuedHead& each : messages()) sum += each.cost;
    return sum;
}

bool PackedRecord::has_expired_messages(Millis now) const {
    return std::ranges::any_of(expiries(), [&](Millis each) { return has_expired(each, now); });
}

}  // namespace pulsegate
