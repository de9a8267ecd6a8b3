#include "server/events/webhook.h"

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
#include <chrono>
#include <exception>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "server/auth/secret_file.h"
#include "server/backend/await_result.h"
#include "server/backend/http_client.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/events/delivery.h"
#include "server/events/event_json.h"
#include "server/events/event_news.h"
#include "server/events/signature.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

namespace asio = boost::asio;
using asio::awaitable;
using boost::system::error_code;

namespace {

/// Only the status of an answer counts.
constexpr std::size_t longest_answer = 64 * 1024;
/// When the disk is in trouble, before the log is read or written again.
constexpr Millis pause_of_log = 1000;

/// The contents of the files.
struct WebhookFiles {
    std::shared_ptr<const HttpCredentials> credentials;
    std::string secret;  ///< "": requests are not signed
};

std::string read_webhook_secret(const std::string& path) {
    constexpr std::size_t shortest = 16;
    if (path.empty()) return "";
    std::string secret = read_token("webhook-secret-file", path);
    if (secret.size() < shortest)
        throw std::runtime_error(fmt::format(
            "webhook-secret-file: {}: no secret of {} characters or more in its first line; "
            "openssl rand -hex 32 makes one",
            path, shortest));
    return secret;
}

WebhookFiles read_webhook_files(const WebhookSettings& settings) {
    HttpCredentials credentials;
    if (settings.url->tls)
        credentials.authorities = read_authorities("webhook-ca-file", settings.ca_file);
    if (!settings.token_file.empty())
        credentials.token = read_bearer_token("webhook-token-file", settings.token_file);
    return {std::make_shared<const HttpCredentials>(std::move(credentials)),
            read_webhook_secret(settings.secret_file)};
}

}  // namespace

struct Webhook::Sender {
    Sender(const WebhookSettings& all, WebhookFiles files)
        : settings(all),
          timeout(all.timeout),
          client(io, *all.url, longest_answer),
          size(all.batch) {
        use(std::move(files));
    }

    void use(WebhookFiles files) {
        client.use(std::move(files.credentials));
        secret = std::move(files.secret);
    }

    struct Answer {
        Verdict verdict = Verdict::later;
        std::string why{};
        std::optional<std::chrono::seconds> retry_after{};
    };

    // -- events to send --

    using Work = awaitable<void> (Sender::*)();

    awaitable<void> keep_at(Work work) {
        for (;;) {
            std::string trouble;
            try {
                co_await (this->*work)();
            } catch (const std::exception& failed) {
                trouble = failed.what();
            }
            spdlog::error("webhook: {}; trying again", trouble);
            co_await pause(pause_of_log);
        }
    }

    awaitable<void> send_events() {
        waiting.clear();
        read_upto = ledger->events().delivered;
        for (;;) {
            if (!waiting.empty())
                co_await send_some();
            else if (ledger->events().last > read_upto)
                co_await read_some();
            else
                co_await news.wait();
        }
    }

    /// Beside the new events, which don't wait for it.
    awaitable<void> send_replays() {
        for (;;) {
            if (ledger->events().to_replay > 0)
                co_await replay_one();
            else
                co_await news.wait();
        }
    }

    awaitable<void> read_some() {
        const auto ask = [this](auto answer) {
            ledger->read_events(
                read_upto, settings.events, settings.batch,
                [answer](Outcome, EventPage page) mutable { answer(std::move(page)); });
        };
        EventPage page = co_await await_result<EventPage>(io, ask);
        if (page.upto <= read_upto) co_return co_await pause(pause_of_log);
        read_upto = page.upto;
        waiting = std::move(page.events);
        if (waiting.empty()) note_delivered(read_upto);
    }

    awaitable<void> send_some() {
        const std::size_t count = std::min(size.next(), waiting.size());
        const auto batch = std::span(waiting).first(count);
        const bool repeat = batch.front().number <= tried_upto;
        tried_upto = std::max(tried_upto, batch.back().number);
        const Answer answer = co_await send(batch, repeat);
        switch (answer.verdict) {
            case Verdict::delivered: co_return delivered(count);
            case Verdict::refused: co_return co_await refused(count, answer);
            case Verdict::later: co_return co_await wait_after(answer, backoff);
        }
    }

    void delivered(std::size_t count) {
        backoff.succeeded();
        size.delivered(count);
        forget(count);
        note_delivered(delivered_upto());
    }

    awaitable<void> refused(std::size_t count, const Answer& answer) {
        switch (size.refused(count)) {
            case BatchSize::Step::halve: co_return;
            case BatchSize::Step::wait: co_return co_await wait_after(answer, backoff);
            case BatchSize::Step::set_aside: break;
        }
        DeadLetter letter{.event = waiting.front(), .failed = wall_now(), .why = answer.why};
        forget(1);
        std::vector<Operation> operations;
        operations.emplace_back(PutDeadLetter{std::move(letter)});
        operations.emplace_back(EventDelivered{delivered_upto()});
        co_await store(operations);
    }

    /// The first `count` that wait need not be sent any more.
    void forget(std::size_t count) {
        done_upto = waiting[count - 1].number;
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
    }

    /// After the last event of a page come only events that the webhook does not want.
    EventNumber delivered_upto() const { return waiting.empty() ? read_upto : done_upto; }

    /// A crash may come before it is stored: then they are sent again.
    void note_delivered(EventNumber upto) { ledger->submit_lazily({{EventDelivered{upto}}, {}}); }

    /// One by one, because each has been refused before.
    awaitable<void> replay_one() {
        const auto ask = [this](auto answer) {
            ledger->list_dead_letters(0, true, 1,
                                      [answer](Outcome, std::vector<DeadLetter> found) mutable {
                                          answer(std::move(found));
                                      });
        };
        auto found = co_await await_result<std::vector<DeadLetter>>(io, ask);
        if (found.empty()) co_return co_await pause(pause_of_log);
        DeadLetter& letter = found.front();
        Answer answer{.verdict = Verdict::delivered};  // one that is damaged can only be dropped
        if (!letter.event.body.empty()) answer = co_await send(std::span(&letter.event, 1), true);
        std::vector<Operation> operations;
        if (answer.verdict == Verdict::refused)
            operations.emplace_back(PutDeadLetter{{letter.event, wall_now(), answer.why}, true});
        else
            operations.emplace_back(DropDeadLetters{.number = letter.event.number});
        if (answer.verdict != Verdict::later) co_await store(operations);
        if (answer.verdict == Verdict::delivered) co_return replay_backoff.succeeded();
        co_await wait_after(answer, replay_backoff);
    }

    /// Until the disk takes it.
    awaitable<void> store(const std::vector<Operation>& operations) {
        const auto ask = [this, &operations](auto answer) {
            ledger->submit({operations, [answer](Outcome outcome, auto&) mutable {
                                answer(outcome == Outcome::committed);
                            }});
        };
        while (!co_await await_result<bool>(io, ask)) co_await pause(pause_of_log);
    }

    // -- how it is sent --

    awaitable<Answer> send(std::span<const StoredEvent> events, bool repeat) {
        const std::string body = batch_json(ledger->events().log, events, repeat);
        HttpClient::Fields fields;
        if (!secret.empty())
            fields.emplace_back("Pulsegate-Signature", webhook_signature(secret, unix_now(), body));
        const Millis began = monotonic_now();
        const HttpReply reply = co_await post(body, fields);
        Answer answer{.why = reply.trouble, .retry_after = reply.retry_after};
        if (reply.status != 0) {  // whatever came of the body
            answer.verdict = verdict_on(reply.status);
            answer.why = fmt::format("status {}", reply.status);
        }
        count(answer.verdict, events.size(), monotonic_now() - began);
        co_return answer;
    }

    awaitable<void> wait_after(const Answer& answer, Backoff& attempts) {
        const Millis time =
            attempts.failed(answer.retry_after, static_cast<std::uint32_t>(random()));
        log_limited(spdlog::level::warn,
                    "webhook: {}: {}; the next attempt is in {} ms, and {} events wait",
                    client.url().authority(), answer.why, time, ledger->events().waiting);
        co_await pause(time);
    }

    awaitable<HttpReply> post(const std::string& body, const HttpClient::Fields& fields) {
        const auto call = std::make_shared<HttpClient::Call>();
        asio::steady_timer patience(io, std::chrono::milliseconds(timeout));
        const auto timed_out = std::make_shared<bool>(false);
        patience.async_wait([call, timed_out](error_code cancelled) {
            if (cancelled) return;
            *timed_out = true;
            call->give_up();
        });
        // The backend may have had it, and must be told so when it comes again.
        constexpr bool is_idempotent = false;
        HttpReply reply = co_await client.post(*call, body, fields, is_idempotent);
        if (*timed_out && !reply.trouble.empty())
            reply.trouble = fmt::format("no answer within webhook-timeout, {} ms", timeout);
        co_return reply;
    }

    awaitable<void> pause(Millis time) {
        asio::steady_timer timer(io, std::chrono::milliseconds(time));
        error_code never;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, never));
    }

    void count(Verdict verdict, std::size_t events, Millis took) {
        const std::lock_guard lock(mutex);
        counters.wait.count(took);
        switch (verdict) {
            case Verdict::delivered:
                ++counters.accepted;
                counters.delivered += events;
                break;
            case Verdict::refused: ++counters.refused; break;
            case Verdict::later: ++counters.failed; break;
        }
    }

    const WebhookSettings& settings;
    Millis timeout;  ///< for an answer
    asio::io_context io{1};
    EventNews news{io};
    HttpClient client;
    std::string secret;
    Ledger* ledger = nullptr;  ///< from `start` on

    std::vector<StoredEvent> waiting;  ///< the rest of a page
    EventNumber read_upto = 0;
    EventNumber done_upto = 0;
    EventNumber tried_upto = 0;  ///< the backend may have had the events up to this one
    BatchSize size;
    Backoff backoff;
    Backoff replay_backoff;
    std::minstd_rand random{std::random_device{}()};

    mutable std::mutex mutex;  ///< of the counters
    WebhookCounters counters;

    std::thread thread;
};

Webhook::Webhook(const WebhookSettings& settings)
    : settings_(settings),
      sender_(std::make_unique<Sender>(settings_, read_webhook_files(settings_))) {}

Webhook::~Webhook() { stop(); }

void Webhook::start(Ledger& ledger) {
    const bool is_new = sender_->ledger == nullptr;
    sender_->ledger = &ledger;
    sender_->io.restart();
    if (is_new) {
        sender_->tried_upto = ledger.events().last;  // by the process before, perhaps
        for (const auto work : {&Sender::send_events, &Sender::send_replays})
            asio::co_spawn(sender_->io, sender_->keep_at(work), asio::detached);
    }
    sender_->thread = std::thread([this] {
        name_thread("webhook");
        sender_->io.run();
    });
}

void Webhook::stop() {
    sender_->io.stop();
    if (sender_->thread.joinable()) sender_->thread.join();
}

std::function<void()> Webhook::on_event() {
    return [&news = sender_->news] { news.tell(); };
}

std::function<void()> Webhook::prepare_reload(Millis timeout) {
    return [sender = sender_.get(), files = read_webhook_files(settings_), timeout] {
        asio::post(sender->io, [sender, files, timeout] {
            sender->use(files);
            sender->timeout = timeout;
        });
    };
}

WebhookCounters Webhook::counters() const {
    const std::lock_guard lock(sender_->mutex);
    return sender_->counters;
}

}  // namespace pulsegate
