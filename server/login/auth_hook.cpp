#include "server/login/auth_hook.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/utf8.h"
#include "server/auth/auth_cache.h"
#include "server/auth/hook_messages.h"
#include "server/auth/secret_file.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/limits/fair_queue.h"

namespace pulsegate {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// The most requests that may wait for a connection; a backend answers fewer within the timeout.
/// When more come, the last ones in turn are refused.
constexpr std::size_t most_waiting_questions = 2000;

using HookAnswer = std::variant<AuthResult, HookFailure>;

/// One request to the backend, for all logins with the same credentials.
struct Question {
    Question(asio::io_context& io, const AuthCache::Key& asked, Credentials shown)
        : key(asked), credentials(std::move(shown)), patience(io) {}

    const AuthCache::Key key;
    const Credentials credentials;  ///< their text in JSON may be six times as long
    std::vector<AuthHook::Answer> answers{};
    FairQueue::Ticket ticket = 0;
    asio::steady_timer patience;
    HttpClient::Call call{};
    std::optional<Millis> asked{};  ///< when it was sent; nothing: it waits for its turn
    unsigned asked_after = 0;       ///< the number of calls of `forget` before that
    bool over = false;              ///< all its logins have their answer
};
using QuestionRef = std::shared_ptr<Question>;

}  // namespace

struct AuthHook::Impl {
    Impl(const AuthHookSettings& all, std::shared_ptr<const HttpCredentials> credentials)
        : settings(all), cache(all.cache), client(io, *all.url, longest_hook_answer) {
        client.use(std::move(credentials));
    }

    // -- who asks
    // -----------------------------------------------------------------------------------

    void authenticate(Credentials credentials, const Address& address, Answer answer) {
        const auto key = cache.key_of(credentials);
        if (auto known = cache.find(key, monotonic_now())) {
            count([](HookCounters& all) { ++all.remembered; });
            return answer(std::move(*known));
        }
        if (const auto open = shared.find(key); open != shared.end()) {
            count([](HookCounters& all) { ++all.remembered; });
            return open->second->answers.push_back(std::move(answer));
        }
        const auto question = std::make_shared<Question>(io, key, std::move(credentials));
        question->answers.push_back(std::move(answer));
        limit(question);
        if (settings.cache > 0) shared.emplace(key, question);
        enqueue(question, address);
    }

    void enqueue(const QuestionRef& question, const Address& address) {
        question->ticket = ++last_ticket;
        waiting.emplace(question->ticket, question);
        queue.add(address, question->credentials.user, question->ticket);
        if (queue.size() > most_waiting_questions)
            turn_away(*waiting.at(queue.take_last().value()));
        put_to_work();
    }

    void put_to_work() {
        if (working >= settings.connections) return;
        ++working;
        asio::co_spawn(io, work(), asio::detached);
    }

    /// Refuses a request that waited: another takes its place, or its time is over.
    void turn_away(Question& question) {
        const auto alive = dequeue(question.ticket);
        count([](HookCounters& all) { ++all.busy; });
        tell(question,
             {.reason = Reason::server_busy, .why = "too many logins wait for the auth-hook"});
    }

    QuestionRef dequeue(FairQueue::Ticket ticket) {
        const auto found = waiting.find(ticket);
        QuestionRef question = std::move(found->second);
        waiting.erase(found);
        queue.remove(ticket);
        return question;
    }

    /// Limits the wait for a turn, and then the wait for the answer, to the timeout each. With one
    /// limit for both, an overloaded backend would only get requests that are about to time out.
    void limit(const QuestionRef& question) {
        question->patience.expires_after(std::chrono::milliseconds(settings.timeout));
        question->patience.async_wait([this, question](error_code cancelled) {
            const bool renewed = question->patience.expiry() > std::chrono::steady_clock::now();
            if (!cancelled && !renewed) time_out(*question);
        });
    }

    void time_out(Question& question) {
        if (question.over) return;
        if (!question.asked) return turn_away(question);
        conclude(question, HookFailure{fmt::format("no answer within auth-hook-timeout, {} ms",
                                                   settings.timeout)});
        question.call.give_up();
    }

    void conclude(Question& question, HookAnswer answer) {
        const Millis now = monotonic_now();
        if (auto* failure = std::get_if<HookFailure>(&answer)) {
            log_limited(spdlog::level::warn, "auth-hook: {}: {}", settings.url->authority(),
                        failure->why);
            count([&](HookCounters& all) {
                ++all.failed;
                all.wait.count(now - *question.asked);
            });
            return tell(question, {.reason = Reason::server_unavailable,
                                   .why = "the auth-hook fails: " + failure->why});
        }
        auto& result = std::get<AuthResult>(answer);
        const bool allows = result.reason == Reason::success;
        const bool outdated = allows && question.asked_after != forgotten;
        if (outdated)
            result = {.reason = Reason::server_busy,
                      .why =
                          "a user's logins were revoked while the auth-hook was asked; it "
                          "decides again at the next login",
                      .told = "logins were revoked meanwhile: come again"};
        result.asked = *question.asked;
        count([&](HookCounters& all) {
            ++(outdated ? all.revoked : allows ? all.allowed : all.denied);
            all.wait.count(now - *question.asked);
        });
        if (is_shared(question)) cache.put(question.key, result, now, unix_now());
        tell(question, result);
    }

    void tell(Question& question, const AuthResult& result) {
        question.over = true;
        question.patience.cancel();
        if (is_shared(question)) shared.erase(question.key);
        for (const Answer& answer : std::exchange(question.answers, {})) answer(result);
    }

    /// True if other logins may use its answer: the cache is on, and no reload came in between.
    bool is_shared(const Question& question) const {
        const auto open = shared.find(question.key);
        return open != shared.end() && open->second.get() == &question;
    }

    template <class Change>
    void count(Change change) {
        const std::lock_guard lock(mutex);
        change(counters);
    }

    // -- requests to the backend --

    /// Sends one request after the other while any wait, unless enough coroutines do so already.
    asio::awaitable<void> work() {
        while (working <= settings.connections) {
            const auto ticket = queue.take_first();
            if (!ticket) break;
            const QuestionRef question = dequeue(*ticket);
            question->asked = monotonic_now();
            question->asked_after = forgotten;
            limit(question);
            HookAnswer answer = HookFailure{};
            try {
                answer = co_await answer_to(*question);
            } catch (const std::exception& trouble) {
                answer = HookFailure{trouble.what()};
            }
            if (!question->over) conclude(*question, std::move(answer));
        }
        --working;
    }

    asio::awaitable<HookAnswer> answer_to(Question& question) {
        const std::string body = hook_question(question.credentials);
        auto reply = co_await client.post(question.call, body);
        if (!reply.trouble.empty()) co_return HookFailure{std::move(reply.trouble)};
        co_return read_hook_answer(reply.status, reply.body, unix_now());
    }

    void use(std::shared_ptr<const HttpCredentials> credentials) {
        client.use(std::move(credentials));
        shared.clear();
        cache.clear();
    }

    void use(const AuthHookSettings& fresh) {
        settings = fresh;
        shared.clear();
        cache.use(settings.cache);
        for (auto left = queue.size(); left > 0 && working < settings.connections; --left)
            put_to_work();
    }

    void forget() {
        ++forgotten;
        forget_cached();
    }

    void forget_cached() {
        shared.clear();
        cache.clear();
    }

    AuthHookSettings settings;
    asio::io_context io{1};
    AuthCache cache;
    HttpClient client;
    boost::unordered_flat_map<AuthCache::Key, QuestionRef, CredentialMacHash>
        shared;       ///< the open questions that others may join
    FairQueue queue;  ///< the order in which requests are sent
    boost::unordered_flat_map<FairQueue::Ticket, QuestionRef>
        waiting;  ///< the requests in the queue
    FairQueue::Ticket last_ticket = 0;
    unsigned working = 0;    ///< coroutines, each with one request at a time
    unsigned forgotten = 0;  ///< calls of `forget`

    mutable std::mutex mutex;  ///< guards the counters
    HookCounters counters;

    asio::executor_work_guard<asio::io_context::executor_type> serving{io.get_executor()};
    std::thread thread;
};

AuthHook::AuthHook(AuthHookSettings settings)
    : settings_(std::move(settings)), impl_(std::make_unique<Impl>(settings_, read_credentials())) {
    impl_->thread = std::thread([this] {
        name_thread("auth hook");
        impl_->io.run();
    });
}

AuthHook::~AuthHook() { stop(); }

void AuthHook::stop() {
    impl_->io.stop();
    if (impl_->thread.joinable()) impl_->thread.join();
}

std::shared_ptr<const HttpCredentials> AuthHook::read_credentials() const {
    auto read = std::make_shared<HttpCredentials>();
    if (settings_.url->tls) read->authorities = read_authorities("auth-hook-ca", settings_.ca_file);
    if (!settings_.token_file.empty())
        read->token = read_bearer_token("auth-hook-token-file", settings_.token_file);
    return read;
}

void AuthHook::use(std::shared_ptr<const HttpCredentials> credentials) {
    asio::post(impl_->io,
               [this, credentials = std::move(credentials)] { impl_->use(credentials); });
}

void AuthHook::use(const AuthHookSettings& settings) {
    asio::post(impl_->io, [this, settings] { impl_->use(settings); });
}

void AuthHook::forget() {
    asio::post(impl_->io, [this] { impl_->forget(); });
}

void AuthHook::forget_cached() {
    asio::post(impl_->io, [this] { impl_->forget_cached(); });
}

void AuthHook::authenticate(Credentials credentials, const Address& address, Answer answer) {
    asio::post(impl_->io, [this, credentials = std::move(credentials), address,
                           answer = std::move(answer)]() mutable {
        if (!valid_utf8(credentials.password))
            return answer(
                {.reason = Reason::bad_user_name_or_password,
                 .why = "its password is not UTF-8, as the JSON for the auth-hook must be"});
        impl_->authenticate(std::move(credentials), address, std::move(answer));
    });
}

HookCounters AuthHook::counters() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->counters;
}

}  // namespace pulsegate
