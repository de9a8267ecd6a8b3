#include "server/login/auth_hook.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cerrno>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
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
#include "server/base/url.h"
#include "server/limits/fair_queue.h"

namespace pulsegate {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Logins that may wait for a connection: what these could do within the timeout is less. When more
/// come, those go whose turn would come last.
constexpr std::size_t most_waiting_questions = 2000;

/// Proxies and firewalls forget connections that are quiet for longer, some without a word.
constexpr Millis longest_idle = 30'000;

using Request = http::request<http::string_body>;
using TlsStream = asio::ssl::stream<tcp::socket&>;

/// One connection to the backend.
struct HookConnection {
    explicit HookConnection(asio::io_context& io) : resolver(io), socket(io) {}

    /// Whatever waits for it fails.
    void close() {
        resolver.cancel();
        error_code ignored;
        socket.close(ignored);
    }

    /// Is it closed, or does it say what nobody asked for? Such a word must not become the answer
    /// to the next question.
    bool has_news() {
        char byte;
        const auto size =
            ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL);
        return size >= 0 || errno != EAGAIN;
    }

    tcp::resolver resolver;
    tcp::socket socket;
    std::unique_ptr<TlsStream> tls{};  ///< null: bytes go as they are
    Millis idle_since = 0;
};

/// What came back for a request.
struct Reply {
    error_code error{};
    bool begun = false;     ///< at least a part of an answer came
    bool reusable = false;  ///< the connection, for another request
    unsigned status = 0;
    std::string body{};
};

using Opinion = std::variant<AuthResult, HookFailure>;

/// What the backend is asked, for all who ask the same.
struct Question {
    Question(asio::io_context& io, const AuthCache::Key& asked) : key(asked), patience(io) {}

    const AuthCache::Key key;
    std::string body{};
    std::vector<AuthHook::Answer> answers{};
    FairQueue::Ticket ticket = 0;
    asio::steady_timer patience;
    std::shared_ptr<HookConnection> connection{};  ///< that it is asked on; null: it waits for one
    std::optional<Millis> asked{};                 ///< when; nothing: it waits for its turn
    unsigned asked_after = 0;                      ///< so many calls of `forget`
    bool over = false;                             ///< all have their answer
};
using QuestionRef = std::shared_ptr<Question>;

/// The token that a request shows. It must fit in a header (RFC 6750, 2.1).
std::string read_hook_token(const std::string& path) {
    std::string token = read_token("auth-hook-token-file", path);
    const bool fits =
        std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (token.empty() || !fits)
        throw std::runtime_error(fmt::format(
            "auth-hook-token-file: {}: its first line is no token; write one of visible ASCII "
            "characters without blanks",
            path));
    return token;
}

std::shared_ptr<asio::ssl::context> read_authorities(const std::string& ca_file) {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    context->set_verify_mode(asio::ssl::verify_peer);
    error_code error;
    if (ca_file.empty())
        context->set_default_verify_paths(error);
    else
        context->load_verify_file(ca_file, error);
    if (error)
        throw std::runtime_error(fmt::format(
            "auth-hook-ca: {}: {}; name a PEM file with the certificates that sign the backend's",
            ca_file.empty() ? "the system's" : ca_file, error.message()));
    return context;
}

/// The certificate must be made out to this host, by name or by IP address.
bool expect_host(SSL* ssl, const std::string& host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
    return SSL_set1_host(ssl, host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

std::string trouble_with_tls(SSL* ssl, const error_code& error) {
    const auto verified = SSL_get_verify_result(ssl);
    return fmt::format("TLS: {}", verified == X509_V_OK ? error.message()
                                                        : X509_verify_cert_error_string(verified));
}

template <class Stream>
asio::awaitable<Reply> exchange(Stream& stream, const Request& request) {
    Reply reply;
    co_await http::async_write(stream, request,
                               asio::redirect_error(asio::use_awaitable, reply.error));
    if (reply.error) co_return reply;

    http::response_parser<http::string_body> parser;
    parser.header_limit(16 * 1024);
    parser.body_limit(longest_hook_answer);
    boost::beast::flat_buffer buffer;
    co_await http::async_read(stream, buffer, parser,
                              asio::redirect_error(asio::use_awaitable, reply.error));
    reply.begun = parser.got_some();
    if (reply.error) co_return reply;
    reply.status = parser.get().result_int();
    const bool interim = reply.status < 200;  // the answer itself would come later
    reply.reusable = parser.get().keep_alive() && buffer.size() == 0 && !interim;
    reply.body = std::move(parser.get().body());
    co_return reply;
}

}  // namespace

std::string HookUrl::authority() const {
    const bool usual = port == (tls ? 443 : 80);
    return usual ? bracketed(host) : fmt::format("{}:{}", bracketed(host), port);
}

struct AuthHook::Files {
    std::shared_ptr<asio::ssl::context> authorities;  ///< null for http
    std::string token;                                ///< "": none is shown
};

struct AuthHook::Impl {
    Impl(const AuthHookSettings& all, std::shared_ptr<const Files> read)
        : settings(all), files(std::move(read)), cache(all.cache) {}

    // -- who asks
    // -----------------------------------------------------------------------------------

    void authenticate(const Credentials& credentials, const Address& address, Answer answer) {
        const auto key = cache.key_of(credentials);
        if (auto known = cache.find(key, monotonic_now())) {
            count([](HookCounters& all) { ++all.remembered; });
            return answer(std::move(*known));
        }
        if (const auto open = shared.find(key); open != shared.end()) {
            count([](HookCounters& all) { ++all.remembered; });
            return open->second->answers.push_back(std::move(answer));
        }
        const auto question = std::make_shared<Question>(io, key);
        question->body = hook_question(credentials);
        question->answers.push_back(std::move(answer));
        limit(question);
        if (settings.cache > 0) shared.emplace(key, question);
        enqueue(question, address, credentials.user);
    }

    void enqueue(const QuestionRef& question, const Address& address, std::string_view user) {
        question->ticket = ++last_ticket;
        waiting.emplace(question->ticket, question);
        queue.add(address, user, question->ticket);
        if (queue.size() > most_waiting_questions)
            turn_away(*waiting.at(queue.take_last().value()));
        if (working == settings.connections) return;
        ++working;
        asio::co_spawn(io, work(), asio::detached);
    }

    /// Another takes its place, or its time is over.
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

    /// It may wait as long again once it is asked: those who waited for their turn would all be
    /// asked in vain otherwise, when there are more of them than the backend can answer.
    void limit(const QuestionRef& question) {
        question->patience.expires_after(std::chrono::milliseconds(settings.timeout));
        question->patience.async_wait([this, question](error_code cancelled) {
            const bool renewed = question->patience.expiry() > std::chrono::steady_clock::now();
            if (!cancelled && !renewed) lose_patience(*question);
        });
    }

    void lose_patience(Question& question) {
        if (question.over) return;
        if (!question.asked) return turn_away(question);
        conclude(question, HookFailure{fmt::format("no answer within auth-hook-timeout, {} ms",
                                                   settings.timeout)});
        if (question.connection) question.connection->close();
    }

    void conclude(Question& question, Opinion opinion) {
        const Millis now = monotonic_now();
        if (auto* failure = std::get_if<HookFailure>(&opinion)) {
            log_limited(spdlog::level::warn, "auth-hook: {}: {}", settings.url->authority(),
                        failure->why);
            count([&](HookCounters& all) {
                ++all.failed;
                all.wait.count(now - *question.asked);
            });
            return tell(question, {.reason = Reason::server_unavailable,
                                   .why = "the auth-hook fails: " + failure->why});
        }
        auto& result = std::get<AuthResult>(opinion);
        const bool allows = result.reason == Reason::success;
        if (allows && question.asked_after != forgotten)
            result = {.reason = Reason::server_busy,
                      .why =
                          "a user's logins were revoked while the auth-hook was asked: it is "
                          "asked again when the client comes again"};
        count([&](HookCounters& all) {
            ++(allows ? all.allowed : all.denied);
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

    /// May others have its answer? Not if the cache is off, nor if a reload came in between.
    bool is_shared(const Question& question) const {
        const auto open = shared.find(question.key);
        return open != shared.end() && open->second.get() == &question;
    }

    template <class Change>
    void count(Change change) {
        const std::lock_guard lock(mutex);
        change(counters);
    }

    // -- who is asked
    // -------------------------------------------------------------------------------

    /// Asks one question after the other while any wait.
    asio::awaitable<void> work() {
        while (const auto ticket = queue.take_first()) {
            const QuestionRef question = dequeue(*ticket);
            question->asked = monotonic_now();
            question->asked_after = forgotten;
            limit(question);
            Opinion opinion = HookFailure{};
            try {
                opinion = co_await opinion_on(*question);
            } catch (const std::exception& trouble) {
                opinion = HookFailure{trouble.what()};
            }
            if (!question->over) conclude(*question, std::move(opinion));
        }
        --working;
    }

    asio::awaitable<Opinion> opinion_on(Question& question) {
        const auto with = files;
        const Request request = request_for(question, *with);
        question.connection = take_idle();
        if (question.connection) {
            auto reply = co_await exchange_on(question, request);
            const bool was_closed = reply.error && !reply.begun;
            if (!was_closed || question.over) co_return understand(question, reply, with);
        }
        question.connection = std::make_shared<HookConnection>(io);
        auto trouble = co_await open(question, *with);
        if (!trouble.empty()) co_return HookFailure{std::move(trouble)};
        auto reply = co_await exchange_on(question, request);
        co_return understand(question, reply, with);
    }

    Request request_for(const Question& question, const Files& with) const {
        Request request(http::verb::post, settings.url->target, 11, question.body);
        request.set(http::field::host, settings.url->authority());
        request.set(http::field::user_agent, "Pulsegate/" PULSEGATE_VERSION);
        request.set(http::field::content_type, "application/json");
        request.set(http::field::accept, "application/json");
        if (!with.token.empty()) request.set(http::field::authorization, "Bearer " + with.token);
        request.prepare_payload();
        return request;
    }

    /// Returns what is in the way, or nothing.
    asio::awaitable<std::string> open(Question& question, const Files& with) {
        const auto connection = question.connection;
        const std::string port = std::to_string(settings.url->port);
        error_code error;
        const auto places = co_await connection->resolver.async_resolve(
            settings.url->host, port, tcp::resolver::numeric_service,
            asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return fmt::format("{}: {}", settings.url->host, error.message());
        if (question.over) co_return "given up";  // connecting would open the socket again
        co_await asio::async_connect(connection->socket, places,
                                     asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return fmt::format("connect: {}", error.message());
        connection->socket.set_option(tcp::no_delay(true), error);
        if (!settings.url->tls) co_return "";

        connection->tls = std::make_unique<TlsStream>(connection->socket, *with.authorities);
        SSL* const ssl = connection->tls->native_handle();
        if (!expect_host(ssl, settings.url->host)) co_return "TLS: the host has no valid name";
        co_await connection->tls->async_handshake(asio::ssl::stream_base::client,
                                                  asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return trouble_with_tls(ssl, error);
        co_return "";
    }

    asio::awaitable<Reply> exchange_on(Question& question, const Request& request) {
        const auto connection = question.connection;
        if (connection->tls) co_return co_await exchange(*connection->tls, request);
        co_return co_await exchange(connection->socket, request);
    }

    /// What a reply means. Keeps the connection if it is of use to others.
    Opinion understand(Question& question, const Reply& reply,
                       const std::shared_ptr<const Files>& with) {
        const auto connection = std::move(question.connection);
        if (reply.error == http::error::end_of_stream)
            return HookFailure{"it closed the connection without an answer"};
        if (reply.error) return HookFailure{"its answer: " + reply.error.message()};
        if (reply.reusable && !question.over && with == files) keep(connection);
        return read_hook_answer(reply.status, reply.body, unix_now());
    }

    // -- idle connections
    // -------------------------------------------------------------------------

    /// The one that was used last; null if there is none.
    std::shared_ptr<HookConnection> take_idle() {
        drop_old();
        while (!idle.empty()) {
            auto connection = std::move(idle.back());
            idle.pop_back();
            if (!connection->has_news()) return connection;
        }
        return nullptr;
    }

    void keep(std::shared_ptr<HookConnection> connection) {
        connection->idle_since = monotonic_now();
        idle.push_back(std::move(connection));
        drop_old();
    }

    void drop_old() {
        const Millis since = monotonic_now() - longest_idle;
        while (!idle.empty() && idle.front()->idle_since < since) idle.pop_front();
    }

    void use(std::shared_ptr<const Files> fresh) {
        files = std::move(fresh);
        idle.clear();
        shared.clear();
        cache.clear();
    }

    void forget() {
        ++forgotten;
        shared.clear();
        cache.clear();
    }

    const AuthHookSettings& settings;
    asio::io_context io{1};
    std::shared_ptr<const Files> files;
    AuthCache cache;
    boost::unordered_flat_map<AuthCache::Key, QuestionRef, CredentialMacHash>
        shared;       ///< the open questions that others may join
    FairQueue queue;  ///< whose turn it is to be asked
    boost::unordered_flat_map<FairQueue::Ticket, QuestionRef> waiting;  ///< those in the queue
    FairQueue::Ticket last_ticket = 0;
    std::deque<std::shared_ptr<HookConnection>> idle;  ///< the one that was used last at the end
    unsigned working = 0;    ///< coroutines, each with one question at a time
    unsigned forgotten = 0;  ///< calls of `forget`

    mutable std::mutex mutex;  ///< of the counters
    HookCounters counters;

    asio::executor_work_guard<asio::io_context::executor_type> serving{io.get_executor()};
    std::thread thread;
};

AuthHook::AuthHook(AuthHookSettings settings)
    : settings_(std::move(settings)), impl_(std::make_unique<Impl>(settings_, read_files())) {
    impl_->thread = std::thread([this] { impl_->io.run(); });
}

AuthHook::~AuthHook() { stop(); }

void AuthHook::stop() {
    impl_->io.stop();
    if (impl_->thread.joinable()) impl_->thread.join();
}

std::shared_ptr<const AuthHook::Files> AuthHook::read_files() const {
    auto files = std::make_shared<Files>();
    if (settings_.url->tls) files->authorities = read_authorities(settings_.ca_file);
    if (!settings_.token_file.empty()) files->token = read_hook_token(settings_.token_file);
    return files;
}

void AuthHook::use(std::shared_ptr<const Files> files) {
    asio::post(impl_->io, [this, files = std::move(files)] { impl_->use(files); });
}

void AuthHook::forget() {
    asio::post(impl_->io, [this] { impl_->forget(); });
}

void AuthHook::authenticate(Credentials credentials, const Address& address, Answer answer) {
    asio::post(impl_->io, [this, credentials = std::move(credentials), address,
                           answer = std::move(answer)]() mutable {
        if (!valid_utf8(credentials.password))
            return answer({.reason = Reason::bad_user_name_or_password,
                           .why = "its password is no UTF-8, which the auth-hook's JSON must be"});
        impl_->authenticate(credentials, address, std::move(answer));
    });
}

HookCounters AuthHook::counters() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->counters;
}

}  // namespace pulsegate
