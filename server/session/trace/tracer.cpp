#include "server/session/trace/tracer.h"

#include <algorithm>
#include <utility>

#include "server/base/clock.h"
#include "server/base/text/json_text.h"

namespace pulsegate {

namespace {

void add_missing(boost::json::object& event, const char* name, std::string_view text) {
    if (!text.empty() && !event.contains(name)) event[name] = text;
}

}  // namespace

boost::json::object traced_rejection() {
    return {{"event", "rejected"}, {"why", "its address is banned or has too many connections"}};
}

void Tracer::begin(std::shared_ptr<Trace> trace) {
    thread_.assert_here();
    drop_ended();
    traces_.push_back(std::move(trace));
    is_on_ = true;
}

void Tracer::tell(const TraceSubject& subject,
                  const std::function<boost::json::object()>& describe) {
    thread_.assert_here();
    if (!is_on_) return;
    drop_ended();
    const TraceSubject known = with_claim(subject);
    std::string text;
    for (const auto& trace : traces_) {
        if (!is_followed(*trace, known)) continue;
        if (text.empty()) text = text_of(describe(), known);
        trace->put(text);
    }
    if (subject.may_be_claimed) keep(known, describe);
}

std::string Tracer::text_of(boost::json::object event, const TraceSubject& subject) {
    add_missing(event, "time", rfc3339(wall_now()));
    add_missing(event, "user", subject.user);
    add_missing(event, "client", subject.client);
    if (subject.link) add_missing(event, "address", subject.link->peer());
    return json_text(event);
}

/// Keeps an event that may belong to a traced user. The user of a token is known only when the
/// token has been checked.
void Tracer::keep(const TraceSubject& subject,
                  const std::function<boost::json::object()>& describe) {
    const bool may_be_wanted = std::ranges::any_of(traces_, [&](const auto& trace) {
        return trace->target().kind == TraceTarget::Kind::user && !is_followed(*trace, subject);
    });
    if (!may_be_wanted) return;
    if (kept_.size() >= most_kept && !kept_.contains(subject.link)) return;
    boost::json::object event = describe();
    add_missing(event, "time", rfc3339(wall_now()));
    kept_[subject.link] = {
        .event = std::move(event),
        .by = {.user = std::string(subject.user), .client = std::string(subject.client)}};
}

void Tracer::tell_kept(const TraceSubject& subject) {
    const auto found = kept_.find(subject.link);
    if (found == kept_.end()) return;
    const auto& [event, by] = found->second;
    const TraceSubject before{.user = by.user, .client = by.client, .link = subject.link};
    for (const auto& trace : traces_)
        if (is_followed(*trace, subject) && !is_followed(*trace, before))
            trace->put(text_of(event, subject));
    kept_.erase(found);
}

bool Tracer::is_followed(const Trace& trace, const TraceSubject& subject) {
    const TraceTarget& target = trace.target();
    switch (target.kind) {
        case TraceTarget::Kind::user: return subject.user == target.name;
        case TraceTarget::Kind::client: return subject.client == target.name;
        case TraceTarget::Kind::address:
            return target.address ==
                   (subject.link ? subject.link->origin_address() : subject.address);
    }
    return false;
}

TraceSubject Tracer::with_claim(const TraceSubject& subject) const {
    if (!subject.user.empty() || !subject.client.empty()) return subject;
    const auto found = claims_.find(subject.link);
    if (found == claims_.end()) return subject;
    return {.user = found->second.user, .client = found->second.client, .link = subject.link};
}

void Tracer::claim(const Link& link, std::string_view user, std::string_view client) {
    thread_.assert_here();
    if (!is_on_) return;
    drop_ended();
    const TraceSubject subject{.user = user, .client = client, .link = &link};
    const auto follows = [&](const auto& trace) { return is_followed(*trace, subject); };
    tell_kept(subject);
    if (std::ranges::any_of(traces_, follows))
        claims_[&link] = {.user = std::string(user), .client = std::string(client)};
}

void Tracer::forget(const Link& link) {
    if (!claims_.empty()) claims_.erase(&link);
    if (!kept_.empty()) kept_.erase(&link);
}

void Tracer::drop_ended() {
    std::erase_if(traces_, [](const auto& trace) { return trace->has_ended(); });
    if (!traces_.empty()) return;
    claims_ = {};
    kept_ = {};
    is_on_ = false;
}

}  // namespace pulsegate
