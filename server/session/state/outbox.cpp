#include "server/session/state/outbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/session/users/inbox_senders.h"

namespace pulsegate {

namespace {

/// True if its body must stay in memory.
bool is_held(const QueuedMessage& message) {
    return message.has_body() && !message.can_be_left_to_store();
}

constexpr std::uint16_t after(std::uint16_t id) {
    return id == 65'535 ? 1 : static_cast<std::uint16_t>(id + 1);
}

/// The steps from one identifier to the other, 1 to 65,535.
constexpr std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
    return static_cast<std::uint16_t>(to > from ? to - from : 65'535 - from + to);
}

}  // namespace

Outbox::~Outbox() {
    totals_.messages -= queue_.size();
    totals_.expiring -= expiring();
    totals_.bytes -= queued_bytes_;
    for (const QueuedMessage& each : queue_) {
        if (is_held(each)) totals_.bytes_held -= each.cost;
        if (is_inbox_) totals_.inbox_senders->remove(*this, each.sender, each.cost);
    }
}

Outbox::InFlight& Outbox::send(Delivery delivery, std::uint16_t last) {
    shared_ |= delivery.share != nullptr;
    const auto packet_id = next_packet_id(last);
    bytes_held_ += delivery.cost();
    return sent_.emplace_back(InFlight{std::move(delivery), packet_id});
}

void Outbox::restore(Delivery delivery, std::uint16_t packet_id, bool released) {
    if (delivery.message) bytes_held_ += delivery.cost();
    shared_ |= delivery.share != nullptr;
    List& list = released ? sent_ : interrupted_;
    const bool is_noted = delivery.qos == QoS::at_least_once;
    list.push_back({.delivery = std::move(delivery),
                    .packet_id = packet_id,
                    .released = released,
                    .is_noted = is_noted});
    free_ahead_ = 0;
}

void Outbox::adopt(std::vector<Moved> moved) {
    List restored;
    restored.splice(restored.end(), sent_);
    restored.splice(restored.end(), interrupted_);
    free_ahead_ = 0;
    for (Moved& each : moved) {
        List& list = each.waits ? interrupted_ : sent_;
        const auto known = std::ranges::find(restored, each.packet_id, &InFlight::packet_id);
        const bool is_whole = each.delivery.message || each.is_released;
        const auto sent_at = each.sent_at;
        if (known == restored.end() && !is_whole) continue;  // it is damaged in the store
        if (known != restored.end())
            list.splice(list.end(), restored, known);
        else
            put_in_flight(list, std::move(each));
        list.back().sent_at = sent_at;
    }
    // If the store has more messages in flight, these are sent again.
    for (auto entry = restored.begin(); entry != restored.end();) {
        const auto next = std::next(entry);
        List& list = entry->released ? sent_ : interrupted_;
        list.splice(list.end(), restored, entry);
        entry = next;
    }
}

void Outbox::put_in_flight(List& list, Moved&& moved) {
    if (moved.delivery.message) bytes_held_ += moved.delivery.cost();
    shared_ |= moved.delivery.share != nullptr;
    list.push_back({.delivery = std::move(moved.delivery),
                    .packet_id = moved.packet_id,
                    .released = moved.is_released});
}

void Outbox::enqueue(const Delivery& delivery, bool perhaps_sent) {
    shared_ |= delivery.share != nullptr;
    queue_.emplace_back(delivery, totals_.bodies);
    queue_.back().perhaps_sent = perhaps_sent;
    count_queued(std::prev(queue_.end()));
}

void Outbox::enqueue(Queue messages) {
    while (!messages.empty()) {
        queue_.splice(queue_.end(), messages, messages.begin());
        count_queued(std::prev(queue_.end()));
    }
}

void Outbox::merge(Queue messages) {
    shares_.reset();
    auto place = queue_.begin();
    while (!messages.empty()) {
        const auto next = messages.begin();
        while (place != queue_.end() && place->stamp < next->stamp) ++place;
        queue_.splice(place, messages, next);
        count_queued(next);
    }
}

void Outbox::order_last() {
    const auto last = std::prev(queue_.end());
    auto place = last;
    while (place != queue_.begin() && std::prev(place)->stamp > last->stamp) --place;
    if (place == last) return;
    queue_.splice(place, queue_, last);
    if (shares_) shares_->order_last(last->sender);
}

Outbox::InFlight* Outbox::send_next(std::uint16_t window, std::uint16_t last, OwnerId owner) {
    if (in_flight() >= window) return nullptr;
    const QueuedMessage* const queued = next_queued();
    if (!queued && interrupted_.empty()) return nullptr;
    if (!queued) {
        sent_.splice(sent_.end(), interrupted_, interrupted_.begin());
        sent_.back().again = true;
        sent_.back().sent_at = 0;
        return &sent_.back();
    }
    if (!queued->has_body()) return nullptr;
    const bool perhaps_again = queued->perhaps_sent;
    InFlight& next = send(dequeue(queue_.begin()).delivery(owner), last);
    next.perhaps_again = perhaps_again;
    return &next;
}

void Outbox::discard(std::uint16_t packet_id) {
    if (const auto entry = find(packet_id); entry != sent_.end()) erase_sent(entry);
}

Outbox::Effect Outbox::on_puback(std::uint16_t packet_id) {
    const auto entry = find(packet_id);
    if (entry == sent_.end()) return Effect::unknown;
    if (entry->released || entry->delivery.qos != QoS::at_least_once) return Effect::misplaced;
    if (entry->unstored) ++totals_.spared;
    erase_sent(entry);
    return Effect::settled;
}

std::uint32_t Outbox::sent_at(std::uint16_t packet_id) const {
    const auto entry = std::ranges::find(sent_, packet_id, &InFlight::packet_id);
    return entry == sent_.end() ? 0 : entry->sent_at;
}

Outbox::Effect Outbox::on_pubrec(std::uint16_t packet_id, bool refused) {
    const auto entry = find(packet_id);
    if (entry == sent_.end()) return Effect::unknown;
    if (!entry->released && entry->delivery.qos != QoS::exactly_once) return Effect::misplaced;
    if (refused) {
        erase_sent(entry);
        return Effect::settled;
    }
    entry->released = true;
    count_out(entry->delivery);
    const auto owner = entry->delivery.owner;
    if (owner != 0 && entry->delivery.message) {
        totals_.journal->add(ReleaseExchange{owner, packet_id});
        totals_.journal->done(entry->delivery);
    }
    entry->delivery = {.message = {}, .qos = QoS::exactly_once, .owner = owner};
    return Effect::release;
}

Outbox::Effect Outbox::on_pubcomp(std::uint16_t packet_id) {
    const auto entry = find(packet_id);
    if (entry == sent_.end()) return Effect::unknown;
    if (!entry->released) return Effect::misplaced;
    erase_sent(entry);
    return Effect::settled;
}

void Outbox::interrupt() {
    // Messages that still wait to be sent again after an earlier connection are younger.
    const auto younger = interrupted_.begin();
    for (auto entry = sent_.begin(); entry != sent_.end();) {
        const auto next = std::next(entry);
        if (!entry->released) interrupted_.splice(younger, sent_, entry);
        entry = next;
    }
}

Queue Outbox::take_expired(Millis now) {
    Queue expired;
    while (expiries_) {
        const auto first = expiries_->first_expired(now);
        if (!first) break;
        shares_.reset();
        expired.push_back(dequeue(*first));
    }
    return expired;
}

std::optional<QueuedMessage> Outbox::take_surplus(SenderShares::Sender sender, std::size_t bytes) {
    if (!shares_) shares_ = std::make_unique<QueueShares>(queue_);
    const auto oldest = shares_->surplus(sender, bytes);
    if (!oldest) return std::nullopt;
    return dequeue(*oldest);
}

std::size_t Outbox::take_lost() { return std::exchange(lost_, 0); }

Outbox::List::iterator Outbox::find(std::uint16_t packet_id) {
    return std::find_if(sent_.begin(), sent_.end(),
                        [&](const InFlight& entry) { return entry.packet_id == packet_id; });
}

void Outbox::erase_sent(List::iterator entry) {
    const auto owner = entry->delivery.owner;
    if (entry->delivery.message) totals_.journal->done(entry->delivery);
    const bool is_noted = entry->delivery.qos == QoS::exactly_once || entry->is_noted;
    if (owner != 0 && is_noted) forget_identifier(*entry);
    count_out(entry->delivery);
    // Declared here, because its destruction may end this outbox.
    const auto unstored = std::move(entry->unstored);
    sent_.erase(entry);
}

void Outbox::note(InFlight& entry, Journal& journal) {
    journal.add_lazily(PutExchange{.owner = entry.delivery.owner,
                                   .packet_id = entry.packet_id,
                                   .stamp = entry.delivery.message->stamp,
                                   .qos = QoS::at_least_once});
    entry.is_noted = true;
    entry.to_note.unlink();
}

void Outbox::forget_identifier(const InFlight& entry) {
    totals_.journal->add_lazily(DropExchange{entry.delivery.owner, entry.packet_id});
}

void Outbox::count_out(const Delivery& delivery) {
    if (delivery.message) bytes_held_ -= delivery.cost();
}

/// The next identifier after `last` that is not in flight. There is always a free one.
std::uint16_t Outbox::next_packet_id(std::uint16_t last) {
    // Searched only when the known free identifiers are used up: new messages don't take
    // identifiers ahead of `last`.
    while (free_ahead_ == 0) {
        std::uint16_t nearest = 65'535;
        for (const List* list : {&sent_, &interrupted_})
            for (const InFlight& entry : *list)
                nearest = std::min(nearest, distance(last, entry.packet_id));
        free_ahead_ = static_cast<std::uint16_t>(nearest - 1);
        if (free_ahead_ == 0) last = after(last);
    }
    --free_ahead_;
    return after(last);
}

/// Counts a message that is new in the queue.
void Outbox::count_queued(Queue::iterator entry) {
    queued_bytes_ += entry->cost;
    totals_.bytes += entry->cost;
    ++totals_.messages;
    if (shares_) shares_->add(entry);
    if (is_inbox_) totals_.inbox_senders->add(*this, entry->sender, entry->cost);
    if (entry->has_body()) count_body(*entry);
    if (entry->expires() == 0) return;
    if (!expiries_) expiries_ = std::make_unique<QueueExpiries>();
    expiries_->add(entry);
    ++totals_.expiring;
}

/// Counts the message's body, which is in memory now.
void Outbox::count_body(QueuedMessage& entry) {
    if (entry.can_be_left_to_store()) return totals_.bodies.add(entry, totals_.journal->unit());
    bytes_held_ += entry.cost;
    totals_.bytes_held += entry.cost;
}

void Outbox::forget_expiry(Queue::iterator entry) {
    expiries_->remove(entry);
    --totals_.expiring;
    if (expiries_->size() == 0) expiries_.reset();
}

QueuedMessage Outbox::dequeue(Queue::iterator entry) {
    const std::size_t cost = entry->cost;
    queued_bytes_ -= cost;
    totals_.bytes -= cost;
    --totals_.messages;
    totals_.bodies.remove(*entry);
    if (is_inbox_) totals_.inbox_senders->remove(*this, entry->sender, cost);
    if (entry->expires() != 0) forget_expiry(entry);
    if (is_held(*entry)) {
        bytes_held_ -= cost;
        totals_.bytes_held -= cost;
    }
    if (shares_) shares_->remove(entry);
    QueuedMessage message = std::move(*entry);
    queue_.erase(entry);
    if (queue_.empty()) shares_.reset();
    return message;
}

// -- messages from the inbox --

Queue Outbox::take_queue() {
    shares_.reset();
    Queue taken;
    while (!queue_.empty()) taken.push_back(dequeue(queue_.begin()));
    return taken;
}

Queue Outbox::take_from_inbox(bool session_ends) {
    shares_.reset();
    Queue taken;
    const auto goes_back = [&](const Delivery& each) {
        const bool may = session_ends || each.inbox == 0;
        return each.from_inbox && each.message && may;  // not after the PUBREC
    };
    for (Delivery& delivery : take_sent_if(goes_back)) {
        if (delivery.inbox != 0)  // only the inbox has it now
            totals_.journal->done(std::exchange(delivery.owner, delivery.inbox),
                                  delivery.message->stamp);
        taken.emplace_back(delivery, totals_.bodies);
    }
    for (auto entry = queue_.begin(); entry != queue_.end();) {
        const auto next = std::next(entry);
        if (entry->is_from_inbox()) taken.push_back(dequeue(entry));
        entry = next;
    }
    return taken;
}

std::vector<Stamp> Outbox::find_from_inbox(const std::vector<Stamp>& stamps, OwnerId inbox) {
    std::vector<Stamp> found;
    for (InFlight& entry : interrupted_) {
        Delivery& delivery = entry.delivery;
        if (delivery.qos != QoS::exactly_once) continue;
        if (!std::ranges::binary_search(stamps, delivery.message->stamp)) continue;
        delivery.from_inbox = true;
        delivery.inbox = inbox;
        found.push_back(delivery.message->stamp);
    }
    std::ranges::sort(found);
    return found;
}

bool Outbox::has_any_from_inbox() const {
    const auto in_flight = [](const InFlight& entry) {
        return entry.delivery.from_inbox && entry.delivery.message;
    };
    return std::ranges::any_of(interrupted_, in_flight) || std::ranges::any_of(sent_, in_flight) ||
           std::ranges::any_of(queue_, &QueuedMessage::is_from_inbox);
}

std::vector<Stamp> Outbox::stamps() const {
    std::vector<Stamp> stamps;
    stamps.reserve(queue_.size() + sent_.size() + interrupted_.size());
    for (const QueuedMessage& each : queue_) stamps.push_back(each.stamp);
    for (const List* list : {&sent_, &interrupted_})
        for (const InFlight& each : *list)
            if (each.delivery.message) stamps.push_back(each.delivery.message->stamp);
    std::ranges::sort(stamps);
    return stamps;
}

// -- bodies --

std::vector<Stamp> Outbox::bodies_to_read(std::size_t most, std::size_t most_bytes) const {
    std::vector<Stamp> stamps;
    std::size_t bytes = 0;
    for (const QueuedMessage& each : queue_) {
        if (each.has_body()) break;
        bytes += each.cost;
        if (!stamps.empty() && (stamps.size() == most || bytes > most_bytes)) break;
        stamps.push_back(each.stamp);
    }
    return stamps;
}

/// Puts the bodies that were read into the queue. The queue begins with these messages, unless some
/// were dropped or sent meanwhile.
Queue Outbox::put_bodies(const std::vector<Stamp>& asked, const std::vector<MessageRef>& found) {
    shares_.reset();
    Queue lost;
    auto body = found.begin();
    auto entry = queue_.begin();
    for (const Stamp stamp : asked) {
        const bool is_stored = body != found.end() && (*body)->stamp == stamp;
        if (entry != queue_.end() && entry->stamp == stamp) {
            const auto here = entry++;
            if (is_stored && !here->has_body()) {
                here->put_body(*body);
                count_body(*here);
            } else if (!here->has_body()) {
                lost.push_back(dequeue(here));
            }
        }
        if (is_stored) ++body;
    }
    return lost;
}

}  // namespace pulsegate
