#include "server/login/key_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/limits/fair_queue.h"

namespace pulsegate {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// The shortest time between fetches for unknown keys, and before a failed fetch is repeated.
constexpr Millis shortest_pause = 5'000;
constexpr Millis fetch_timeout = 5'000;
constexpr std::size_t most_waiting_for_keys = 2000;
/// Limits the keys that are kept after they have left the set.
constexpr std::size_t most_kept_keys = 100;

/// A key that has left the set.
struct KeptKey {
    Jwk key;
    Millis ends;
};

/// The timeout of one fetch. It may still expire after the answer has come.
struct Patience {
    explicit Patience(asio::io_context& io) : timer(io, std::chrono::milliseconds(fetch_timeout)) {}

    asio::steady_timer timer;
    HttpClient::Call call{};
    bool is_over = false;
};

std::string kids_of(const JwkSet& set) {
    std::string text;
    for (const Jwk& key : set.keys) {
        if (!text.empty()) text += ", ";
        text += fmt::format("{} ({})", in_quotes(key.kid), key.algorithm);
    }
    return text;
}

}  // namespace

struct KeyServer::Impl {
    Impl(const KeyServerSettings& all, std::shared_ptr<const HttpCredentials> credentials)
        : settings(all), client(io, *all.url, most_jwk_set_bytes) {
        client.use(std::move(credentials));
    }

    Millis pause() const { return std::min(settings.refresh, shortest_pause); }

    /// Runs as long as the gateway.
    asio::awaitable<void> serve() {
        while (true) {
            is_fetching = true;
            is_outdated = false;
            std::string trouble = co_await fetch();
            is_fetching = false;
            last_fetch = monotonic_now();
            conclude(trouble);
            while (const auto ticket = queue.take_first()) take (*ticket)(Waited::is_over);
            if (is_outdated) continue;
            const Millis next = *last_fetch + (trouble.empty() ? settings.refresh : pause());
            while (
                co_await is_quiet_until(kept.empty() ? next : std::min(next, kept.front().ends)) &&
                queue.size() == 0 && monotonic_now() < next)
                share_keys();
        }
    }

    /// False if a fetch is wanted before.
    asio::awaitable<bool> is_quiet_until(Millis when) {
        timer.expires_after(std::chrono::milliseconds(when - monotonic_now()));
        error_code cancelled;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        co_return !cancelled;
    }

    /// Returns the fault, or "".
    asio::awaitable<std::string> fetch() {
        const auto patience = std::make_shared<Patience>(io);
        patience->timer.async_wait([patience](error_code cancelled) {
            if (cancelled) return;
            patience->is_over = true;
            patience->call.give_up();
        });
        HttpReply reply;
        try {
            reply = co_await client.get(patience->call);
        } catch (const std::exception& failure) {
            reply.trouble = failure.what();
        }
        patience->timer.cancel();
        if (patience->is_over) co_return fmt::format("no answer within {} ms", fetch_timeout);
        if (!reply.trouble.empty()) co_return reply.trouble;
        if (reply.status != 200) co_return fmt::format("it answers {}", reply.status);
        JwkReading reading = read_jwk_set(reply.body);
        if (!reading.trouble.empty()) co_return "its answer: " + reading.trouble;
        replace(std::move(reading));
        co_return "";
    }

    /// Keeps keys that have left the set for a while, because tokens signed with them are still in
    /// use.
    void replace(JwkReading reading) {
        const auto is_in = [](const JwkSet& set, const Jwk& key) {
            return std::ranges::find(set.keys, key) != set.keys.end();
        };
        const Millis now = monotonic_now();
        for (const Jwk& key : fetched.keys)
            if (!is_in(reading.set, key)) kept.push_back({key, now + settings.keep});
        std::erase_if(kept, [&](const KeptKey& each) { return is_in(reading.set, each.key); });
        if (kept.size() > most_kept_keys)
            kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(most_kept_keys));
        if (reading.set.keys != fetched.keys)
            spdlog::info("jwt-jwks-url: {}: {} keys: {}", settings.url->authority(),
                         reading.set.keys.size(), kids_of(reading.set));
        fetched = std::move(reading.set);
    }

    void conclude(const std::string& trouble) {
        const bool has_keys = share_keys();
        if (!trouble.empty())
            spdlog::warn("jwt-jwks-url: {}: {}; {}", settings.url->authority(), trouble,
                         has_keys ? "the last good set of keys stays"
                                  : "logins with tokens are refused until keys come");
        const std::lock_guard lock(mutex);
        ++(trouble.empty() ? counters.fetched : counters.failed);
        if (trouble.empty()) counters.last = monotonic_now();
        is_in_trouble = !trouble.empty();
    }

    /// Gives logins the keys that are valid now. False if there are none.
    bool share_keys() {
        const Millis now = monotonic_now();
        std::erase_if(kept, [&](const KeptKey& each) { return each.ends <= now; });
        auto all = std::make_shared<JwkSet>(fetched);
        for (const KeptKey& each : kept) all->keys.push_back(each.key);
        const bool has_keys = !all->keys.empty();
        const std::lock_guard lock(mutex);
        counters.keys = all->keys.size();
        if (has_keys) keys = std::move(all);
        return has_keys;
    }

    void await(const Address& address, std::string_view user, Done done) {
        const bool is_fresh = last_fetch && monotonic_now() < *last_fetch + pause();
        if (!is_fetching && is_fresh) return done(Waited::is_over);
        waiting.emplace(++last_ticket, std::move(done));
        queue.add(address, user, last_ticket);
        if (queue.size() > most_waiting_for_keys) take(queue.take_last().value())(Waited::too_many);
        if (!is_fetching) timer.cancel();
    }

    Done take(FairQueue::Ticket ticket) {
        const auto found = waiting.find(ticket);
        Done done = std::move(found->second);
        waiting.erase(found);
        return done;
    }

    /// An answer that is under way may have been written before.
    void fetch_now() {
        is_outdated = true;
        timer.cancel();
    }

    void use(std::shared_ptr<const HttpCredentials> credentials) {
        client.use(std::move(credentials));
        fetch_now();
    }

    /// A key that has left the set expires by the new setting, if that is sooner.
    void use(const KeyServerSettings& fresh) {
        settings = fresh;
        const Millis latest = monotonic_now() + settings.keep;
        for (KeptKey& each : kept) each.ends = std::min(each.ends, latest);
        fetch_now();
    }

    KeyServerSettings settings;
    asio::io_context io{1};
    HttpClient client;
    asio::steady_timer timer{io};
    JwkSet fetched;             ///< the last good one
    std::vector<KeptKey> kept;  ///< the first to expire in front
    FairQueue queue;            ///< the order in which waiting logins get their answer
    boost::unordered_flat_map<FairQueue::Ticket, Done> waiting;
    FairQueue::Ticket last_ticket = 0;
    std::optional<Millis> last_fetch;
    bool is_fetching = false;
    bool is_outdated = false;  ///< the set is wanted again after the fetch that is under way

    mutable std::mutex mutex;  ///< guards what follows
    std::shared_ptr<const JwkSet> keys;
    bool is_in_trouble = true;
    KeyServerCounters counters;

    std::thread thread;
};

KeyServer::KeyServer(KeyServerSettings settings)
    : settings_(std::move(settings)), impl_(std::make_unique<Impl>(settings_, read_credentials())) {
    asio::co_spawn(impl_->io, impl_->serve(), asio::detached);
    impl_->thread = std::thread([this] {
        name_thread("key server");
        impl_->io.run();
    });
}

KeyServer::~KeyServer() { stop(); }

void KeyServer::stop() {
    impl_->io.stop();
    if (impl_->thread.joinable()) impl_->thread.join();
}

std::shared_ptr<const JwkSet> KeyServer::keys() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->keys;
}

bool KeyServer::is_in_trouble() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->is_in_trouble;
}

void KeyServer::await(const Address& address, std::string_view user, Done done) {
    asio::post(impl_->io,
               [this, address, user = std::string(user), done = std::move(done)]() mutable {
                   impl_->await(address, user, std::move(done));
               });
}

std::shared_ptr<const HttpCredentials> KeyServer::read_credentials() const {
    auto read = std::make_shared<HttpCredentials>();
    if (settings_.url->tls) read->authorities = read_authorities("jwt-jwks-ca", settings_.ca_file);
    return read;
}

void KeyServer::use(std::shared_ptr<const HttpCredentials> credentials) {
    asio::post(impl_->io,
               [this, credentials = std::move(credentials)] { impl_->use(credentials); });
}

void KeyServer::use(const KeyServerSettings& settings) {
    asio::post(impl_->io, [this, settings] { impl_->use(settings); });
}

KeyServerCounters KeyServer::counters() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->counters;
}

}  // namespace pulsegate
