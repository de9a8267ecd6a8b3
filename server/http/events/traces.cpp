#include "server/http/events/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/session/broker_admin.h"
#include "server/session/trace/tracer.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

using namespace std::chrono_literals;
using TraceClock = std::chrono::steady_clock;

constexpr std::uint64_t longest_trace = 3600;  ///< s

/// A quiet stream sends something at this interval, so that a reader that has gone is noticed.
constexpr auto trace_pulse = 5s;

TraceTarget trace_target_in(const Query& query) {
    const auto user = query.text("user");
    const auto client = query.text("client");
    const auto address = query.text("address");
    if (user.has_value() + client.has_value() + address.has_value() != 1)
        throw BadRequest(ApiError::bad_parameter, "name one of 'user', 'client' and 'address'");
    if (user) return {.kind = TraceTarget::Kind::user, .name = *user};
    if (client) return {.kind = TraceTarget::Kind::client, .name = *client};
    const auto parsed = Address::parse(*address);
    if (!parsed) throw BadRequest(ApiError::bad_parameter, "'address' is not an IP address");
    return {.kind = TraceTarget::Kind::address, .address = *parsed};
}

/// Server-sent events: `begun`, then one `trace` for each event, `lost` where there was no room for
/// some, and `end` when its time is up.
class TraceStream {
public:
    TraceStream(Traces& traces, std::shared_ptr<Trace> trace, TraceClock::time_point ends)
        : traces_(traces), place_(traces.places()), trace_(std::move(trace)), ends_(ends) {}
    ~TraceStream() { trace_->end(); }
    TraceStream(const TraceStream&) = delete;
    TraceStream& operator=(const TraceStream&) = delete;

    /// The next text to write; "" if the stream has ended.
    awaitable<std::string> next() {
        if (has_ended_) co_return "";
        if (!std::exchange(has_begun_, true)) co_return "event: begun\ndata: {}\n\n";
        const auto pulse = std::min(TraceClock::now() + trace_pulse, ends_);
        std::string text = taken();
        while (text.empty() && TraceClock::now() < pulse) {
            co_await traces_.wait(pulse);
            text = taken();
        }
        if (TraceClock::now() >= ends_) {
            has_ended_ = true;
            text += "event: end\ndata: {}\n\n";
        }
        if (text.empty()) text = ":\n\n";
        co_return text;
    }

private:
    std::string taken() {
        const Trace::Taken taken = trace_->take();
        std::string text;
        for (const std::string& event : taken.events)
            text += fmt::format("event: trace\ndata: {}\n\n", event);
        if (taken.lost > 0)
            text += fmt::format("event: lost\ndata: {{\"lost\":{}}}\n\n", taken.lost);
        return text;
    }

    Traces& traces_;
    const ReaderPlaces::Place place_;
    const std::shared_ptr<Trace> trace_;
    const TraceClock::time_point ends_;
    bool has_begun_ = false;
    bool has_ended_ = false;
};

}  // namespace

awaitable<ApiReply> show_trace(const ApiContext& api, const ApiRequest& request) {
    TraceTarget target = trace_target_in(request.query);
    const auto seconds = std::chrono::seconds(
        request.query.number("seconds", 1, longest_trace).value_or(longest_trace));
    if (!api.traces.places().has_room())
        co_return api_refusal(
            ApiError::too_many_readers,
            fmt::format("{} traces are already open; try again later", Traces::most_open));
    const auto trace = api.traces.make(std::move(target));
    const auto stream =
        std::make_shared<TraceStream>(api.traces, trace, TraceClock::now() + seconds);
    const auto begin = [trace](ShardAdmin& shard) {
        shard.broker().tracer().begin(trace);
        return true;
    };
    const auto begun = co_await api.shards.ask_all(begin);
    const bool is_begun =
        std::ranges::all_of(begun, [](const auto& answer) { return answer.has_value(); });
    if (!is_begun) co_return shard_unavailable();
    ApiReply reply{.content_type = "text/event-stream"};
    reply.stream = [stream] { return stream->next(); };
    co_return reply;
}

}  // namespace pulsegate
