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
    std::optional<HttpUrl> url;  ///< nothing: nobody is told
    EventKinds events = all_event_kinds;
    std::string secret_file;  ///< "": requests are not signed
    std::string ca_file;      ///< PEM; "": the authorities that the system trusts
    std::string token_file;   ///< "": no Authorization
    std::size_t batch = 100;  ///< events in a request
    Millis timeout = 10'000;  ///< for the answer
};

/// What the webhook has done since the start.
struct WebhookCounters {
    std::uint64_t delivered = 0;  ///< events
    std::uint64_t accepted = 0;   ///< requests
    std::uint64_t refused = 0;    ///< because of what was in them
    std::uint64_t failed = 0;

    Histogram<5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000, 10'000> wait;  ///< for answers
};

/// Tells the company's own backend of events, over HTTP, on a thread of its own. It reads them from
/// the log, and notes there how far the backend has got: each event is delivered at least once, and
/// in the log's order, for there is one request at a time. What the backend refuses is set aside as
/// a dead letter; everything else is tried until it succeeds.
class Webhook {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit Webhook(const WebhookSettings& settings);
    ~Webhook();

    /// Begins to send what is in the ledger, or goes on after a stop. The ledger must not end
    /// before `stop`.
    void start(Ledger& ledger);
    void stop();
    /// To be called when the ledger has a new event. Any thread.
    std::function<void()> on_event();

    /// Reads secret, token and authorities anew. Throws as the constructor does. What it returns
    /// puts them to use, and the longest wait for an answer.
    [[nodiscard]] std::function<void()> prepare_reload(Millis timeout);

    WebhookCounters counters() const;

private:
    struct Sender;
    const WebhookSettings settings_;
    std::unique_ptr<Sender> sender_;
};

}  // namespace pulsegate
