#include "server/store/delayed_table.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <limits>
#include <string_view>
#include <utility>

#include "server/store/body.h"

namespace pulsegate {

namespace {

constexpr std::int64_t never_due = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t never_expires = -1;
/// Of bodies in one answer; one message alone may have more.
constexpr std::size_t bytes_in_an_answer = 4 * 1024 * 1024;
/// What a row takes beside its texts.
constexpr std::size_t bookkeeping = 64;
/// Numbers that were given and not committed when the last process ended.
constexpr std::uint32_t numbers_ahead = 1'000'000;
constexpr std::uint32_t number_mask = 0x7fffffff;

std::size_t cost(const PutDelayed& put) {
    const Message& message = *put.message;
    return bookkeeping + put.user.size() + put.name.value_or("").size() + message.topic.size() +
           message.properties.size() + message.payload.size();
}

PutDelayed read_delayed(const Row& row) {
    PutDelayed put{.id = row.bits(0),
                   .flags = row.as<std::uint32_t>(1),
                   .user = row.text(3),
                   .message = read_body(row, 5)};
    if (row.number(2) != never_expires) put.message_expiry = row.as<std::uint32_t>(2);
    if (!row.is_null(4)) put.name = row.text(4);
    return put;
}

std::string select(std::string_view condition) {
    return fmt::format(
        "SELECT id, flags, message_expiry, user, name, checksum, topic, properties, payload"
        " FROM delayed WHERE {} ORDER BY id",
        condition);
}

/// The rows of one answer.
class Page {
public:
    Page(Database& database, std::size_t most) : database_(database), most_(most) {}

    /// False if it is full.
    bool add(const Row& row) {
        PutDelayed put = read_delayed(row);
        if (!put.message) {
            note_damaged(database_, "delayed", row.number(0));
            return true;
        }
        bytes_ += cost(put);
        rows.push_back(std::move(put));
        return rows.size() < most_ && bytes_ < bytes_in_an_answer;
    }

    std::vector<PutDelayed> rows{};

private:
    Database& database_;
    const std::size_t most_;
    std::size_t bytes_ = 0;
};

}  // namespace

DelayedTable::DelayedTable(Database& database)
    : database_(database),
      put_(database, "INSERT OR IGNORE INTO delayed VALUES(?,?,?,?,?,?,?,?,?,?)"),
      find_(database, "SELECT id, user, bytes FROM delayed WHERE id = ?"),
      find_name_(database, "SELECT id, user, bytes FROM delayed WHERE user = ? AND name = ?"),
      remove_(database, "DELETE FROM delayed WHERE id = ?"),
      ids_(database, "SELECT id FROM delayed ORDER BY id"),
      due_(database, select("id < ?").c_str()),
      list_(database, select("id > ?").c_str()),
      list_user_(database, select("id > ? AND user = ?").c_str()),
      put_sum_(database, "INSERT OR REPLACE INTO delayed_sum VALUES(?,?,?)"),
      drop_sum_(database, "DELETE FROM delayed_sum WHERE user = ?"),
      put_number_(database, "INSERT OR REPLACE INTO meta VALUES('delayed', ?)") {
    Statement(database, "SELECT value FROM meta WHERE key = 'delayed'").each([&](const Row& row) {
        first_number_ = (row.as<std::uint32_t>(0) + numbers_ahead) & number_mask;
    });
    Statement(database, "SELECT user, messages, bytes FROM delayed_sum").each([&](const Row& row) {
        const DelayedTotal sum{row.as<std::size_t>(1), row.as<std::size_t>(2)};
        sums_[row.text(0)] = sum;
        sum_.messages += sum.messages;
        sum_.bytes += sum.bytes;
    });
    next_ = first_due();
}

void DelayedTable::begin() {
    newly_.clear();
    dropped_.clear();
    changes_.clear();
    last_number_.reset();
    is_changed_ = false;
}

void DelayedTable::put(const PutDelayed& put) {
    if (put.name)
        if (const auto replaced = find(put.user, *put.name)) remove(*replaced);
    const Message& message = *put.message;
    const auto bytes = static_cast<std::int64_t>(cost(put));
    const auto expiry = put.message_expiry ? std::int64_t{*put.message_expiry} : never_expires;
    const int added =
        put_.run(put.id, put.flags, expiry, put.user, put.name, bytes, checksum_of(message),
                 message.topic, blob(message.properties), blob(message.payload));
    if (added == 0 && database_.ok())  // there were 2^31 others meanwhile
        return spdlog::error("delayed message {} is lost: its number is in use", put.id);
    Change& change = changes_[put.user];
    ++change.messages;
    change.bytes += bytes;
    last_number_ = static_cast<std::uint32_t>(put.id & number_mask);
    if (put.is_taken) newly_.insert(put.id);
    is_changed_ = true;
}

void DelayedTable::cancel(CancelDelayed& cancel) {
    std::optional<Found> found;
    if (cancel.id != 0)
        found = find(cancel.id);
    else if (cancel.user)
        found = find(*cancel.user, cancel.name);
    cancel.found = found && !is_taken(found->id) && (!cancel.user || found->user == *cancel.user);
    if (cancel.found) remove(*found);
}

void DelayedTable::drop(DropDelayed drop) {
    if (const auto found = find(drop.id)) remove(*found);
    dropped_.push_back(drop.id);
}

std::optional<DelayedTable::Found> DelayedTable::find(std::uint64_t id) {
    std::optional<Found> found;
    find_.each([&](const Row& row) { found = Found{row.bits(0), row.text(1), row.number(2)}; }, id);
    return found;
}

std::optional<DelayedTable::Found> DelayedTable::find(const std::string& user,
                                                      const std::string& name) {
    std::optional<Found> found;
    find_name_.each(
        [&](const Row& row) {
            found = Found{row.bits(0), row.text(1), row.number(2)};
        },
        user, name);
    return found;
}

void DelayedTable::remove(const Found& found) {
    remove_.run(found.id);
    Change& change = changes_[found.user];
    --change.messages;
    change.bytes -= found.bytes;
    is_changed_ = true;
}

/// A damaged row can't be published, and would be found again and again.
std::vector<PutDelayed> DelayedTable::take(std::int64_t before, std::size_t most) {
    Page page(database_, most);
    std::vector<std::uint64_t> damaged;
    due_.each(
        [&](const Row& row) {
            if (is_taken(row.bits(0))) return true;
            const auto count = page.rows.size();
            const bool more = page.add(row);
            if (page.rows.size() == count) damaged.push_back(row.bits(0));
            return more;
        },
        delayed_id(before, 0));
    for (const PutDelayed& put : page.rows) newly_.insert(put.id);
    for (const std::uint64_t id : damaged) drop({id});
    is_changed_ = true;
    return std::move(page.rows);
}

std::vector<PutDelayed> DelayedTable::list(const std::optional<std::string>& user,
                                           std::uint64_t after, std::size_t most) {
    Page page(database_, most);
    const auto add = [&](const Row& row) { return is_taken(row.bits(0)) || page.add(row); };
    if (user)
        list_user_.each(add, after, *user);
    else
        list_.each(add, after);
    return std::move(page.rows);
}

std::int64_t DelayedTable::first_due() {
    std::int64_t first = never_due;
    ids_.each([&](const Row& row) {
        if (is_taken(row.bits(0))) return true;
        first = due_seconds(row.bits(0));
        return false;
    });
    return first;
}

void DelayedTable::finish() {
    if (!is_changed_) return;
    for (const auto& [user, change] : changes_) {
        const auto known = sums_.find(user);
        const DelayedTotal before = known == sums_.end() ? DelayedTotal{} : known->second;
        const auto messages = static_cast<std::int64_t>(before.messages) + change.messages;
        const auto bytes = static_cast<std::int64_t>(before.bytes) + change.bytes;
        if (messages > 0)
            put_sum_.run(user, messages, bytes);
        else
            drop_sum_.run(user);
    }
    if (last_number_) put_number_.run(*last_number_);
    first_due_ = first_due();
}

void DelayedTable::committed() {
    if (!is_changed_) return;
    taken_.merge(newly_);
    for (const std::uint64_t id : dropped_) taken_.erase(id);
    next_.store(first_due_, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    for (const auto& [user, change] : changes_) {
        DelayedTotal& sum = sums_[user];
        for (DelayedTotal* each : {&sum, &sum_}) {
            each->messages += static_cast<std::size_t>(change.messages);
            each->bytes += static_cast<std::size_t>(change.bytes);
        }
        if (sum.messages == 0) sums_.erase(user);
    }
}

DelayedTotal DelayedTable::total(const std::optional<std::string>& user) const {
    const std::lock_guard lock(mutex_);
    if (!user) return sum_;
    const auto found = sums_.find(*user);
    return found == sums_.end() ? DelayedTotal{} : found->second;
}

}  // namespace pulsegate
