#include "loadgen/verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate::load {

namespace {

using Outcome = Check::Outcome;

Outcome passed_if(bool held) { return held ? Outcome::passed : Outcome::failed; }

/// "3 lost, 1 duplicated": the parts that are not zero.
class Parts {
public:
    Parts& add(std::uint64_t count, const char* what) {
        if (count == 0) return *this;
        if (!text_.empty()) text_ += ", ";
        text_ += show_count(count) + " " + what;
        return *this;
    }
    std::string text() const { return text_; }

private:
    std::string text_;
};

Check check_connections(const Plan& plan, const Results& results) {
    const auto& seen = results.connections;
    const auto missing = plan.clients - std::min(plan.clients, seen.connected);
    const bool held = results.interrupted ? seen.failed == 0 : missing == 0;
    return {"connected", "every client connected", passed_if(held),
            fmt::format("{} of {}", show_count(seen.connected), show_count(plan.clients))};
}

Check check_talkers(const Results& results) {
    return {"false_offline", "no client that kept talking was closed",
            passed_if(results.false_offline == 0),
            fmt::format("false offline {}", show_count(results.false_offline))};
}

/// The limit that most clients had: an MQTT 5 server may have stated another keepalive.
Duration ruling_limit(const Plan& plan, const Results& results) {
    if (plan.options.limit || results.server_keepalive == 0) return plan.limit;
    return Duration(std::chrono::seconds(results.server_keepalive)) * 3 / 2;
}

Check check_silent(const Plan& plan, const Results& results) {
    const auto& seen = results.silence;
    const Duration limit = ruling_limit(plan, results);
    Check check{"expiry",
                fmt::format("every silent client was closed after {} to {} (+{})", show(limit),
                            show(limit + server_tick), show(plan.options.tolerance)),
                Outcome::skipped, "no client fell silent"};
    if (seen.silent == 0) return check;

    check.outcome = passed_if(seen.early + seen.late + seen.still_open == 0);
    if (check.outcome == Outcome::passed && seen.in_time == 0) check.outcome = Outcome::skipped;
    check.detail = Parts()
                       .add(seen.in_time, "in time")
                       .add(seen.early, "early")
                       .add(seen.late, "late")
                       .add(seen.still_open, "still open")
                       .add(seen.unclear, "unclear")
                       .add(seen.unjudged, "not judged")
                       .text();
    return check;
}

Check check_messages(const Results& results) {
    const auto& seen = results.messages;
    Check check{"messages", "every message arrived exactly once", Outcome::skipped,
                "no messages were sent"};
    if (seen.planned == 0) return check;

    check.outcome = passed_if(seen.unsent + seen.lost + seen.duplicated + seen.misdirected == 0);
    check.detail = fmt::format("{} of {}", show_count(seen.received), show_count(seen.planned));
    const auto wrong = Parts()
                           .add(seen.unsent, "could not be sent")
                           .add(seen.lost, "lost")
                           .add(seen.duplicated, "duplicated")
                           .add(seen.misdirected, "misdirected")
                           .add(seen.excused, "excused")
                           .text();
    if (!wrong.empty()) check.detail += ": " + wrong;
    return check;
}

Check check_acknowledgements(const Results& results) {
    const auto& seen = results.messages;
    return {"acknowledged", "every message was acknowledged",
            seen.sent == 0 ? Outcome::skipped : passed_if(seen.unacknowledged == 0),
            fmt::format("{} of {}", show_count(seen.acknowledged), show_count(seen.sent))};
}

Check check_return(const Plan& plan, const Results& results) {
    const auto& seen = results.storm;
    const auto count = fmt::format("{} of {}", show_count(seen.back), show_count(seen.vanished));
    Check check{"storm_back", "the storm's clients are all back", Outcome::skipped,
                "there was no storm"};
    if (seen.vanished == 0) return check;
    if (seen.back == seen.vanished) {
        check.outcome = Outcome::passed;
        check.detail = fmt::format("{} in {}", count, show(seen.took));
        return check;
    }
    if (!results.interrupted || seen.refused > 0) check.outcome = Outcome::failed;
    check.detail = fmt::format("{} within {}", count, show(plan.options.storm_within));
    if (seen.refused > 0) check.detail += fmt::format(", {} refused", show_count(seen.refused));
    return check;
}

Check check_established(const Plan& plan, const Results& results) {
    const double factor = plan.options.storm_factor;
    Check check{"storm_latency",
                fmt::format("p99 of the established during the storm at most {:.4g} times the "
                            "quiet one",
                            factor),
                Outcome::skipped, "no messages to compare"};
    const auto ratio = p99_ratio(results.quiet.latency, results.in_storm.latency);
    if (!ratio) return check;
    check.outcome = passed_if(*ratio <= factor);
    check.detail = fmt::format("{} against {}, {:.1f} times; the generator's own lag: {}",
                               show(results.in_storm.latency.percentile(0.99)),
                               show(results.quiet.latency.percentile(0.99)), *ratio,
                               show(results.in_storm.lag.percentile(0.99)));
    return check;
}

/// A run in which the generator let clients starve proves nothing, and must not pass.
Check check_generator(const Results& results) {
    return {"generator", "the generator kept its talkers alive", passed_if(results.starved == 0),
            results.starved == 0 ? "yes"
                                 : fmt::format("{} left silent past their limit: not the server's "
                                               "fault; run it again on a quieter machine",
                                               show_count(results.starved))};
}

}  // namespace

// The close happened in [seen - blind, seen]. The silence began between `before` and `after` the
// send, or a little later, when the packet reached the server. So seen - before is the longest
// silence possible: if even that is below the limit, the close was early, without any tolerance.
// Likewise seen - blind - after is the shortest: if even that is past the bound, the close was
// late; the tolerance allows for the kernel and for a busy machine.
Timing judge(const Close& close, Duration limit, Duration tolerance) {
    const Duration bound = limit + server_tick + tolerance;
    if (close.since_before_send < limit) return Timing::early;
    if (close.since_after_send - close.blind > bound) return Timing::late;

    // If the event loop keeps up, the close is taken to be when it was seen.
    if (close.blind <= stall)
        return close.since_after_send > bound ? Timing::late : Timing::in_time;

    const bool surely_not_early = close.since_after_send - close.blind >= limit;
    const bool surely_not_late = close.since_before_send <= bound;
    return surely_not_early && surely_not_late ? Timing::in_time : Timing::unclear;
}

bool starved(const Close& close, Duration limit) { return close.since_before_send >= limit; }

std::optional<double> p99_ratio(const Histogram& quiet, const Histogram& storm) {
    const double before = seconds(quiet.percentile(0.99));
    if (before <= 0 || storm.empty()) return {};
    return seconds(storm.percentile(0.99)) / before;
}

std::vector<Check> check(const Plan& plan, const Results& results) {
    std::vector<Check> checks{check_connections(plan, results), check_talkers(results),
                              check_silent(plan, results), check_messages(results)};
    if (plan.options.qos != QoS::at_most_once) checks.push_back(check_acknowledgements(results));
    if (plan.storm > 0) {
        checks.push_back(check_return(plan, results));
        checks.push_back(check_established(plan, results));
    }
    checks.push_back(check_generator(results));
    return checks;
}

bool passed(const std::vector<Check>& checks) {
    return std::ranges::none_of(checks,
                                [](const Check& c) { return c.outcome == Outcome::failed; });
}

}  // namespace pulsegate::load
