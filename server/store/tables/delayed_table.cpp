#include "server/store/tables/delayed_table.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "server/store/rows/body.h"

namespace pulsegate {

namespace {

constexpr std::int64_t never_due = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t never_expires = -1;
/// The maximum bytes of bodies in one answer. A single message may have more.
constexpr std::size_t bytes_in_an_answer = 4 * 1024 * 1024;
/// A start skips this many numbers: the last process may have given numbers without committing
/// them.
constexpr std::uint32_t numbers_ahead = 1'000'000;
constexpr std::uint32_t number_mask = 0x7fffffff;

// The column of flags also has the message's origin: a bit for the backend, 32 bits for the token's
// time of issue, and 23 bits for the client.
constexpr std::uint32_t flags_mask = 7;
constexpr int backend_shift = 3;
constexpr int token_shift = 8;
constexpr int client_shift = 40;

std::uint64_t flags_column(const PutDelayed& put) {
    const DelayedOrigin& origin = put.origin;
    return (put.flags & flags_mask) | std::uint64_t{origin.is_backend} << backend_shift |
           std::uint64_t{origin.token_issued} << token_shift |
           std::uint64_t{origin.client} << client_shift;
}

DelayedOrigin origin_in(std::uint64_t column) {
    return {.is_backend = (column >> backend_shift & 1) != 0,
            .token_issued = static_cast<std::uint32_t>(column >> token_shift),
            .client = static_cast<std::uint32_t>(column >> client_shift)};
}

PutDelayed read_delayed(const Row& row) {
    PutDelayed put{.id = row.bits(0),
                   .flags = row.as<std::uint32_t>(1) & flags_mask,
                   .user = row.text(3),
                   .message = read_body(row, 5),
                   .origin = origin_in(row.bits(1))};
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

}  // namespace

/// The rows of one answer.
class DelayedTable::Page {
public:
    Page(Database& database, std::size_t most) : database_(database), most_(most) {}

    /// Returns false if the page is full now.
    bool add(const Row& row) {
        PutDelayed put = read_delayed(row);
        if (!put.message) {
            note_damaged(database_, "delayed", row.number(0));
            damaged.push_back(row.bits(0));
            return true;
        }
        bytes_ += bytes_of(put);
        rows.push_back(std::move(put));
        return has_room();
    }
    bool has_room() const { return rows.size() < most_ && bytes_ < bytes_in_an_answer; }
    std::size_t bytes() const { return bytes_; }

    std::vector<PutDelayed> rows{};
    std::vector<std::uint64_t> damaged{};  ///< can't be read

private:
    Database& database_;
    const std::size_t most_;
    std::size_t bytes_ = 0;
};

DelayedTable::DelayedTable(Database& database)
    : database_(database),
      put_(database, "INSERT OR IGNORE INTO delayed VALUES(?,?,?,?,?,?,?,?,?,?)"),
      find_(database, "SELECT id, user, bytes FROM delayed WHERE id = ?"),
      find_name_(database, "SELECT id, user, bytes FROM delayed WHERE user = ? AND name = ?"),
      remove_(database, "DELETE FROM delayed WHERE id = ?"),
      ids_(database, "SELECT id FROM delayed ORDER BY id"),
      due_(database, select("user = ? AND id < ?").c_str()),
      ids_of_user_(database, "SELECT id FROM delayed WHERE user = ? ORDER BY id"),
      list_(database, select("id > ?").c_str()),
      list_user_(database, select("id > ? AND user = ?").c_str()),
      put_sum_(database, "INSERT OR REPLACE INTO delayed_sum VALUES(?,?,?)"),
      drop_sum_(database, "DELETE FROM delayed_sum WHERE user = ?"),
      put_number_(database, "INSERT OR REPLACE INTO meta VALUES('delayed', ?)") {
    Statement(database, "SELECT value FROM meta WHERE key = 'delayed'").each([&](const Row& row) {
        first_number_ = (row.as<std::uint32_t>(0) + numbers_ahead) & number_mask;
    });
    Statement(database, "SELECT user, messages, bytes FROM delayed_sum").each([&](const Row& row) {
        changes_[row.text(0)] = {.messages = row.as<std::ptrdiff_t>(1),
                                 .bytes = row.as<std::ptrdiff_t>(2)};
    });
    sums_->apply(changes_, {});
    restore_turns();
    next_ = first_due();
}

/// Finds each user's first message. The index has the users in order, and the numbers of each user
/// in order.
void DelayedTable::restore_turns() {
    Statement first(database_,
                    "SELECT user, id FROM delayed WHERE user >= ? ORDER BY user, id LIMIT 1");
    Statement next(database_,
                   "SELECT user, id FROM delayed WHERE user > ? ORDER BY user, id LIMIT 1");
    std::optional<std::string> user;
    const auto visit = [&](const Row& row) {
        user = row.text(0);
        turns_.add(*user, row.bits(1));
    };
    first.each(visit, "");
    while (user) next.each(visit, *std::exchange(user, std::nullopt));
}

void DelayedTable::begin() {
    newly_.clear();
    dropped_.clear();
    changes_.clear();
    claims_.clear();
    added_.clear();
    firsts_.clear();
    served_.clear();
    last_number_.reset();
    is_changed_ = false;
}

void DelayedTable::put(const PutDelayed& put) {
    if (put.name)
        if (const auto replaced = find(put.user, *put.name)) remove(*replaced);
    const Message& message = *put.message;
    const auto bytes = static_cast<std::int64_t>(bytes_of(put));
    const auto expiry = put.message_expiry ? std::int64_t{*put.message_expiry} : never_expires;
    const int added =
        put_.run(put.id, flags_column(put), expiry, put.user, put.name, bytes, checksum_of(message),
                 message.topic, blob(message.properties), blob(message.payload));
    if (added == 0 && database_.ok())  // 2^31 other messages had a number in between
        return spdlog::error("delayed message {} is lost: its number is in use", put.id);
    note_put(put, bytes);
}

void DelayedTable::note_put(const PutDelayed& put, std::int64_t bytes) {
    DelayedSums::Change& change = changes_[put.user];
    ++change.messages;
    change.bytes += bytes;
    if (put.claim) claims_.push_back(put.claim);
    last_number_ = static_cast<std::uint32_t>(put.id & number_mask);
    is_changed_ = true;
    if (put.is_taken) return void(newly_.insert(put.id));
    const auto [first, is_new] = added_.emplace(put.user, put.id);
    if (!is_new) first->second = std::min(first->second, put.id);
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
    DelayedSums::Change& change = changes_[found.user];
    --change.messages;
    change.bytes -= found.bytes;
    if (!is_taken(found.id)) firsts_[found.user];
    is_changed_ = true;
}

/// Each user with due messages gets an equal part of the page. The users with more messages share
/// the rest in further rounds. Damaged rows are deleted: they can't be published, and would be
/// found again each time.
std::vector<PutDelayed> DelayedTable::take(std::int64_t before, std::size_t most) {
    const std::uint64_t end = delayed_id(before, 0);
    turns_.advance(end);
    std::vector<std::string> users = turns_.next(most);
    Page page(database_, most);
    const auto most_of_one =
        std::max<std::size_t>(most / std::max<std::size_t>(users.size(), 1), 1);
    const auto bytes_of_one = bytes_in_an_answer / std::max<std::size_t>(users.size(), 1);
    for (bool is_first = true; !users.empty() && page.has_room(); is_first = false)
        std::erase_if(users, [&](const std::string& user) {
            if (!page.has_room()) return false;
            if (is_first) served_.push_back(user);
            return !take_of(user, end, most_of_one, bytes_of_one, page);
        });
    for (const std::uint64_t id : page.damaged) drop({id});
    std::ranges::sort(page.rows, {}, &PutDelayed::id);
    is_changed_ = true;
    return std::move(page.rows);
}

/// Returns false if the user has no more due messages.
bool DelayedTable::take_of(const std::string& user, std::uint64_t before, std::size_t most,
                           std::size_t most_bytes, Page& page) {
    const std::size_t rows = page.rows.size();
    const std::size_t bytes = page.bytes();
    bool is_more = false;
    due_.each(
        [&](const Row& row) {
            if (is_taken(row.bits(0))) return true;
            const bool may = page.has_room() && page.rows.size() - rows < most &&
                             (page.rows.size() == rows || page.bytes() - bytes < most_bytes);
            if (may) newly_.insert(row.bits(0));
            if (may) page.add(row);
            is_more = !may;
            return may;
        },
        user, before);
    firsts_[user];
    return is_more;
}

std::optional<std::uint64_t> DelayedTable::first_of(const std::string& user) {
    std::optional<std::uint64_t> first;
    ids_of_user_.each(
        [&](const Row& row) {
            if (is_taken(row.bits(0))) return true;
            first = row.bits(0);
            return false;
        },
        user);
    return first;
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
        const DelayedTotal before = sums_->stored(user);
        const auto messages = static_cast<std::int64_t>(before.messages) + change.messages;
        const auto bytes = static_cast<std::int64_t>(before.bytes) + change.bytes;
        if (messages > 0)
            put_sum_.run(user, messages, bytes);
        else
            drop_sum_.run(user);
    }
    for (auto& [user, first] : firsts_) first = first_of(user);
    if (last_number_) put_number_.run(*last_number_);
    first_due_ = first_due();
}

void DelayedTable::committed() {
    if (!is_changed_) return;
    taken_.merge(newly_);
    for (const std::uint64_t id : dropped_) taken_.erase(id);
    next_.store(first_due_, std::memory_order_relaxed);
    sums_->apply(changes_, claims_);
    claims_.clear();
    for (const auto& [user, id] : added_) turns_.add(user, id);
    for (const auto& [user, first] : firsts_) turns_.set(user, first);
    for (const std::string& user : served_) turns_.served(user);
}

}  // namespace pulsegate
