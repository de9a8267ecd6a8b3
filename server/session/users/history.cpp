#include "server/session/users/history.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/utf8.h"
#include "server/base/hash.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_client = 128;
constexpr std::size_t longest_address = 64;
constexpr std::size_t longest_listener = 128;
constexpr std::size_t longest_cause = 200;

std::uint32_t as_32_bits(std::int64_t number) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(number, 0, UINT32_MAX));
}

HistoryEvent with_short_texts(HistoryEvent event) {
    event.client = first_characters(event.client, longest_client);
    event.address = first_characters(event.address, longest_address);
    event.listener = first_characters(event.listener, longest_listener);
    event.why = first_characters(event.why, longest_cause);
    return event;
}

/// True if the event equals the earlier one, except for time and port. Logins are never repeated.
bool is_repeated(const HistoryEvent& last, const HistoryEvent& event) {
    return event.kind != HistoryKind::login && last.kind == event.kind &&
           last.cause == event.cause && last.reason == event.reason &&
           last.client == event.client && last.why == event.why;
}

/// The events of an account in a block.
struct Share {
    std::uint32_t account;
    std::size_t bytes = 0;
    std::size_t next = 0;  ///< index of an event; all before it belong to others, or are dropped
};

Share& share_of_account(std::uint32_t account, std::vector<Share>& shares) {
    const auto known = std::ranges::find(shares, account, &Share::account);
    return known != shares.end() ? *known : shares.emplace_back(Share{.account = account});
}

}  // namespace

/// The beginning of an event in its block; the event's texts follow.
struct HistoryBlocks::Head {
    std::uint64_t owner;
    WallMillis time;
    std::uint32_t account;
    std::uint32_t count;
    std::uint32_t lasted;
    std::uint32_t silence;
    HistoryKind kind;
    Cause cause;
    Reason reason;
    Version version;
    std::uint8_t client;  ///< size of its text
    std::uint8_t address;
    std::uint8_t listener;
    std::uint8_t why;

    static Head of(const HistoryEvent& event, const HistoryOwner& owner) {
        return {.owner = owner.user,
                .time = event.time,
                .account = static_cast<std::uint32_t>(owner.account),
                .count = event.count,
                .lasted = as_32_bits(event.lasted),
                .silence = as_32_bits(event.silence),
                .kind = event.kind,
                .cause = event.cause,
                .reason = event.reason,
                .version = event.version,
                .client = static_cast<std::uint8_t>(event.client.size()),
                .address = static_cast<std::uint8_t>(event.address.size()),
                .listener = static_cast<std::uint8_t>(event.listener.size()),
                .why = static_cast<std::uint8_t>(event.why.size())};
    }
    static Head at(const Block& block, std::size_t place) {
        Head head{};
        std::memcpy(&head, block.bytes + place, sizeof head);
        return head;
    }
    void put(Block& block, std::size_t place) const {
        std::memcpy(block.bytes + place, this, sizeof *this);
    }
    std::size_t size() const { return sizeof(Head) + client + address + listener + why; }
    HistoryEvent event(const Block& block, std::size_t place) const {
        const char* texts = block.bytes + place + sizeof(Head);
        const auto take = [&texts](std::size_t bytes) {
            return std::string_view(std::exchange(texts, texts + bytes), bytes);
        };
        HistoryEvent event{.kind = kind,
                           .time = time,
                           .count = count,
                           .lasted = lasted,
                           .silence = silence,
                           .cause = cause,
                           .reason = reason,
                           .version = version};
        event.client = take(client);
        event.address = take(address);
        event.listener = take(listener);
        event.why = take(why);
        return event;
    }
};

HistoryBlocks::HistoryBlocks(std::size_t bytes)
    : blocks_(std::max<std::size_t>(bytes / block_bytes, 1)) {}

void HistoryBlocks::add(const HistoryOwner& owner, const HistoryEvent& event) {
    const HistoryEvent shorter = with_short_texts(event);
    const bool may_repeat = event.kind != HistoryKind::login;
    const Head head = Head::of(shorter, owner);
    Block& block = block_of(owner.user);
    if (!may_repeat || !add_to_last(block, head, shorter)) append(block, head, shorter);
}

void HistoryBlocks::append(const HistoryOwner& owner, const HistoryEvent& event) {
    const HistoryEvent shorter = with_short_texts(event);
    append(block_of(owner.user), Head::of(shorter, owner), shorter);
}

void HistoryBlocks::append(Block& block, const Head& head, const HistoryEvent& event) {
    make_room(block, head);
    head.put(block, block.used);
    char* to = block.bytes + block.used + sizeof head;
    for (const auto text : {event.client, event.address, event.listener, event.why})
        to = std::ranges::copy(text, to).out;
    block.used = static_cast<std::uint16_t>(block.used + head.size());
}

/// If the owner's last event is the same, counts it once more. The texts stay as they are.
bool HistoryBlocks::add_to_last(Block& block, const Head& head, const HistoryEvent& event) {
    std::optional<std::size_t> last;
    for (std::size_t place = 0; place < block.used;) {
        const Head each = Head::at(block, place);
        if (each.owner == head.owner && each.account == head.account) last = place;
        place += each.size();
    }
    if (!last) return false;
    Head counted = Head::at(block, *last);
    if (!is_repeated(counted.event(block, *last), event)) return false;
    counted.lasted = as_32_bits(counted.lasted + std::max<Millis>(event.time - counted.time, 0));
    counted.count = as_32_bits(std::int64_t{counted.count} + event.count);
    counted.time = event.time;
    counted.silence = head.silence;
    counted.put(block, *last);
    return true;
}

/// Makes room for an event. Frees more than necessary, so that this does not run for each event.
void HistoryBlocks::make_room(Block& block, const Head& head) {
    constexpr std::size_t kept = sizeof block.bytes / 4 * 3;
    if (block.used + head.size() <= sizeof block.bytes) return;
    struct Event {
        std::size_t place, bytes;
        std::uint32_t account;
    };
    std::vector<Event> events;
    events.reserve(block.used / sizeof(Head));
    std::vector<Share> shares{{head.account, head.size()}};
    for (std::size_t place = 0; place < block.used; place += events.back().bytes) {
        const Head each = Head::at(block, place);
        events.push_back({place, each.size(), each.account});
        share_of_account(each.account, shares).bytes += each.size();
    }
    for (std::size_t used = block.used + head.size(); used > kept;) {
        Share& largest = *std::ranges::max_element(shares, {}, &Share::bytes);
        const auto oldest =
            std::ranges::find(events.begin() + static_cast<std::ptrdiff_t>(largest.next),
                              events.end(), largest.account, &Event::account);
        if (oldest == events.end()) {  // only the new event is left
            if (std::exchange(largest.bytes, 0) == 0) break;
            continue;
        }
        largest.next = static_cast<std::size_t>(oldest - events.begin()) + 1;
        largest.bytes -= oldest->bytes;
        used -= std::exchange(oldest->bytes, 0);
    }
    std::size_t to = 0;
    for (const auto& [place, bytes, account] : events) {  // those that are dropped have no bytes
        std::memmove(block.bytes + to, block.bytes + place, bytes);
        to += bytes;
    }
    block.used = static_cast<std::uint16_t>(to);
}

void HistoryBlocks::remove(Block& block, std::size_t place) {
    const auto size = Head::at(block, place).size();
    std::memmove(block.bytes + place, block.bytes + place + size, block.used - place - size);
    block.used = static_cast<std::uint16_t>(block.used - size);
}

void HistoryBlocks::visit(std::uint64_t user,
                          const std::function<void(const HistoryEvent&)>& visitor) const {
    const Block& block = blocks_[user % blocks_.size()];
    for (std::size_t place = 0; place < block.used;) {
        const Head each = Head::at(block, place);
        if (each.owner == user) visitor(each.event(block, place));
        place += each.size();
    }
}

void HistoryBlocks::visit_all(
    const std::function<void(const HistoryOwner&, const HistoryEvent&)>& visitor) const {
    for (const Block& block : blocks_)
        for (std::size_t place = 0; place < block.used;) {
            const Head each = Head::at(block, place);
            visitor({each.owner, each.account}, each.event(block, place));
            place += each.size();
        }
}

void HistoryBlocks::forget(std::uint64_t user) {
    Block& block = block_of(user);
    for (std::size_t place = 0; place < block.used;) {
        const Head each = Head::at(block, place);
        if (each.owner == user)
            remove(block, place);
        else
            place += each.size();
    }
}

History::History(std::size_t bytes, Tracer& tracer)
    : keeps_(bytes > 0), tracer_(tracer), of_users_(bytes / 4 * 3), of_refused_(bytes / 4) {}

void History::add(std::string_view user, const HistoryEvent& event) {
    thread_.assert_here();
    tell_traces(user, event);
    if (!keeps_) return;
    const auto owner = fingerprint(user);
    of_users_.add({owner, owner}, event);
}

void History::add_refused(std::string_view user, const Address& address,
                          const HistoryEvent& event) {
    thread_.assert_here();
    tell_traces(user, event);
    if (keeps_) of_refused_.add({fingerprint(user), fingerprint(address.text())}, event);
}

/// Further output on the connection, and its end, belong to the same client.
void History::tell_traces(std::string_view user, const HistoryEvent& event) {
    if (!tracer_.is_on() || event.is_traced) return;
    if (event.link) tracer_.claim(*event.link, user, event.client);
    tracer_.tell({user, event.client, event.link}, [&] {
        auto told = to_json(event);
        if (event.kind == HistoryKind::login && event.link)
            told["silence_limit"] = static_cast<double>(event.link->limit()) / 1000;
        return told;
    });
}

void History::visit(std::string_view user,
                    const std::function<void(const HistoryEvent&)>& visitor) const {
    thread_.assert_here();
    const auto owner = fingerprint(user);
    of_users_.visit(owner, visitor);
    of_refused_.visit(owner, visitor);
}

void History::forget(std::string_view user) {
    thread_.assert_here();
    const auto owner = fingerprint(user);
    of_users_.forget(owner);
    of_refused_.forget(owner);
}

void History::visit_all(
    Part part, const std::function<void(const HistoryOwner&, const HistoryEvent&)>& visitor) const {
    thread_.assert_here();
    if (keeps_) (part == Part::users ? of_users_ : of_refused_).visit_all(visitor);
}

void History::adopt(Part part, const HistoryOwner& owner, const HistoryEvent& event) {
    thread_.assert_here();
    if (keeps_) (part == Part::users ? of_users_ : of_refused_).append(owner, event);
}

}  // namespace pulsegate
