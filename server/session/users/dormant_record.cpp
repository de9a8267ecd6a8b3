#include "server/session/users/dormant_record.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace pulsegate {

namespace {

std::size_t allocation(const DormantRecord::Texts& texts, std::size_t messages,
                       std::size_t expiries) {
    return sizeof(DormantRecord) + messages * sizeof(QueuedHead) + expiries * sizeof(Millis) +
           texts.user.size() + texts.client.size() + texts.filter.size();
}

}  // namespace

DormantRecord::DormantRecord(const Texts& texts, std::size_t messages, std::size_t expiries,
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

DormantRecord* DormantRecord::make(const Texts& texts, std::span<const DormantMessage> messages,
                                   Tick ends) {
    const bool any_expires =
        std::ranges::any_of(messages, [](const DormantMessage& each) { return each.expires != 0; });
    const std::size_t expiries = any_expires ? messages.size() : 0;
    void* const memory = ::operator new(allocation(texts, messages.size(), expiries));
    auto* const made = new (memory) DormantRecord(texts, messages.size(), expiries, ends);
    for (std::size_t i = 0; i < messages.size(); ++i)
        new (const_cast<QueuedHead*>(made->queue() + i)) QueuedHead(messages[i].head);
    for (std::size_t i = 0; i < expiries; ++i)
        new (const_cast<Millis*>(made->expiry_times() + i)) Millis(messages[i].expires);
    char* end = const_cast<char*>(made->text());
    for (const auto text : {texts.user, texts.client, texts.filter})
        end = std::ranges::copy(text, end).out;
    return made;
}

void DormantRecord::destroy(DormantRecord* record) {
    record->~DormantRecord();
    ::operator delete(record);
}

std::size_t DormantRecord::queued_bytes() const {
    std::size_t sum = 0;
    for (const QueuedHead& each : messages()) sum += each.cost;
    return sum;
}

bool DormantRecord::has_expired_messages(Millis now) const {
    return std::ranges::any_of(expiries(), [&](Millis each) { return has_expired(each, now); });
}

}  // namespace pulsegate
