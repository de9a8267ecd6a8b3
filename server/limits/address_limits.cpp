#include "server/limits/address_limits.h"

namespace pulsegate {

namespace {

constexpr unsigned most_repeats = 20;

std::optional<Ban> banned_address(const Address& address) {
    return Ban{.address = address.text(), .left = std::nullopt};
}

}  // namespace

void AddressLimits::use(const AddressLimitSettings& settings) {
    const std::lock_guard lock(mutex_);
    settings_ = settings;
}

AddressLimits::Standing AddressLimits::enter(const Address& address, Millis now) {
    if (!address.known()) return Standing::ok;
    const std::lock_guard lock(mutex_);
    const std::size_t there = ++connections_[address];
    const auto most = settings_.max_connections_per_address;
    if (find_ban(address, now))
        return there > most_told_why ? Standing::refused_silently : Standing::banned;
    if (most == 0 || there <= most) return Standing::ok;
    return there > most + most_told_why ? Standing::refused_silently : Standing::too_many;
}

void AddressLimits::leave(const Address& address) {
    if (!address.known()) return;
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(address);
    if (--found->second == 0) connections_.erase(found);
}

bool AddressLimits::failed(const Address& address, std::uint64_t guess, Millis now) {
    if (!address.known()) return false;
    const std::lock_guard lock(mutex_);
    if (settings_.ban_failures == 0) return false;
    if (find_ban(address, now)) return false;
    // A phone with an old password repeats it, and many phones may share one address: that is no
    // guessing. But each check costs processor time, so repetitions have a higher limit of their
    // own.
    guesses_.tick(now);
    const bool again = guesses_.is_counted_alone({address, guess});
    guesses_.add({address, guess}, now);
    const auto different =
        again ? different_guesses_.count(address, now) : different_guesses_.add(address, now);
    const bool far_too_many = failures_.add(address, now) >= most_repeats * settings_.ban_failures;
    if (different < settings_.ban_failures && !far_too_many) return false;
    different_guesses_.forget(address);
    failures_.forget(address);
    bans_.add(address, now, now + settings_.ban_time);
    return true;
}

std::optional<BanCause> AddressLimits::banned(const Address& address, Millis now) const {
    const std::lock_guard lock(mutex_);
    return find_ban(address, now);
}

/// The caller has locked `mutex_`.
std::optional<BanCause> AddressLimits::find_ban(const Address& address, Millis now) const {
    const auto own = bans_.find(address, now);
    return own ? own : home_bans_.find(address, now);
}

bool AddressLimits::order_ban(const Address& address, Millis now, Millis until,
                              std::string reason) {
    const std::lock_guard lock(mutex_);
    return bans_.order(address, now, until, std::move(reason));
}

bool AddressLimits::is_new_scanner(const Address& address) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t hash = hash_value(address);
    return std::exchange(scanners_[hash % scanners_.size()], hash) != hash;
}

std::vector<Ban> AddressLimits::bans(Millis now) const {
    const std::lock_guard lock(mutex_);
    return bans_.all(now, banned_address);
}

BanPage AddressLimits::bans(std::uint64_t after, std::size_t most, Millis now) const {
    const std::lock_guard lock(mutex_);
    return bans_.page(after, most, now, banned_address);
}

bool AddressLimits::lift_ban(const Address& address, Millis now) {
    const std::lock_guard lock(mutex_);
    const bool was_banned_at_home = home_bans_.lift(address, now);
    return bans_.lift(address, now) || was_banned_at_home;
}

std::optional<Millis> AddressLimits::ban_left(const Address& address, Millis now) const {
    const std::lock_guard lock(mutex_);
    return bans_.left(address, now);
}

bool AddressLimits::hear_ban(const Address& address, Millis left, std::uint32_t lifts_known,
                             Millis now) {
    const std::lock_guard lock(mutex_);
    lifted_.forget(now - settings_.ban_time);
    if (lifted_.number_of(address) > lifts_known) return false;
    return bans_.hear(address, now, now + left);
}

AddressLimits::Lifted AddressLimits::lift_everywhere(const Address& address, Millis now) {
    const std::lock_guard lock(mutex_);
    lifted_.forget(now - settings_.ban_time);
    return {.was_banned = bans_.lift(address, now), .lift = lifted_.add(address, now)};
}

std::vector<BanLift> AddressLimits::lifts(Millis now) {
    const std::lock_guard lock(mutex_);
    lifted_.forget(now - settings_.ban_time);
    std::vector<BanLift> lifts;
    for (const auto& [lift, when] : lifted_.all()) lifts.push_back(lift);
    return lifts;
}

void AddressLimits::begin_home_bans() {
    const std::lock_guard lock(mutex_);
    home_bans_.begin_list();
}

void AddressLimits::hear_home_ban(const Address& address, Millis left, bool ordered, Millis now) {
    const std::lock_guard lock(mutex_);
    if (ordered) static_cast<void>(bans_.lift(address, now));
    home_bans_.hear(address, now, left == for_good ? for_good : now + left, ordered);
}

void AddressLimits::end_home_bans() {
    HomeBans::List replaced;  // is freed without the lock
    const std::lock_guard lock(mutex_);
    replaced = home_bans_.end_list();
}

void AddressLimits::forget_home_bans() {
    HomeBans::List forgotten;  // is freed without the lock
    const std::lock_guard lock(mutex_);
    forgotten = home_bans_.forget();
}

AddressLimits::Counts AddressLimits::counts(Millis now) {
    const std::lock_guard lock(mutex_);
    return {.guesses = guesses_.pages(now),
            .different_guesses = different_guesses_.pages(now),
            .failures = failures_.pages(now)};
}

void AddressLimits::adopt(const Counts& counts, Millis now) {
    const std::lock_guard lock(mutex_);
    guesses_.adopt(counts.guesses, now);
    different_guesses_.adopt(counts.different_guesses, now);
    failures_.adopt(counts.failures, now);
}

bool AddressLimits::adopt(const Address& address, const Ban& ban, Millis now) {
    const std::lock_guard lock(mutex_);
    return bans_.adopt(address, now, ban);
}

}  // namespace pulsegate
