#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/base/clock.h"
#include "server/base/histogram.h"
#include "server/base/text/url.h"
#include "server/events/event_kind.h"

namespace pulsegate {

class Ledger;

struct WebhookSettings {
    std::optional<HttpUrl> url;  ///< nothing: there is no webhook
    EventKinds events = all_event_kinds;
    std::string secret_file;  ///< "": requests are not signed
    std::string ca_file;      ///< PEM; "": the authorities that the system trusts
    std::string token_file;   ///< "": no Authorization
    std::size_t batch = 100;  ///< events in a request
    Millis timeout = 10'000;  ///< for an answer
};

/// The webhook's counters since the start.
struct WebhookCounters {
    std::uint64_t delivered = 0;  ///< events
    std::uint64_t accepted = 0;   ///< requests
    std::uint64_t refused = 0;    ///< requests refused because of their content
    std::uint64_t failed = 0;

    Histogram<5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000, 10'000> wait;  ///< for answers
};

/// Sends events to the company's own backend, over HTTP, on a thread of its own. It reads them from
/// the log, and stores there how many the backend has received. Each event is delivered at least
/// once and in the log's order, because there is one request at a time. Events that the backend
/// refuses become dead letters; all others are retried until they are delivered.
class Webhook {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit Webhook(const WebhookSettings& settings);
    ~Webhook();

    /// Begins to send the events in the ledger, or goes on after a stop. The ledger must live until
    /// `stop`.
    void start(Ledger& ledger);
    void stop();
    /// Call it when the ledger has a new event. Any thread.
    std::function<void()> on_event();

    /// Reads secret, token and CAs again. The returned function applies them, and the longest wait
    /// for an answer. Throws as the constructor does.
    [[nodiscard]] std::function<void()> prepare_reload(Millis timeout);

    WebhookCounters counters() const;

private:
    struct Sender;
    const WebhookSettings settings_;
    std::unique_ptr<Sender> sender_;
};

}  // namespace pulsegate
