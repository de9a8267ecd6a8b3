#include "server/http/events/presence_feed.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "server/backend/await_result.h"
#include "server/events/event_json.h"
#include "server/events/event_kind.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

using namespace std::chrono_literals;

/// The maximum number of events that are sent at a time.
constexpr std::size_t changes_streamed = 100;
constexpr unsigned longest_poll = 60;
/// A stream sends something at this interval, so that proxies keep it open and a client that has
/// gone is noticed.
constexpr auto stream_pulse = 15s;

template <class Number>
bool read_number(std::string_view text, Number& number, int base) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number, base);
    return read.ec == std::errc() && read.ptr == end;
}

/// Tells a reader that has missed events what to do.
ApiReply gone_reply(const PresenceFeed& feed) {
    return api_refusal(ApiError::cursor_too_old,
                       "the log no longer contains these changes: read all pages of GET "
                       "/api/v1/users, then continue from 'cursor'",
                       {{"cursor", feed.cursor(feed.last())}});
}

ApiReply feed_off() {
    return api_refusal(
        ApiError::feed_off,
        "no changes are kept: presence-feed is off, which is the default with data = none");
}

ApiReply feed_full() {
    return api_refusal(ApiError::too_many_readers, "too many readers are waiting; try again later");
}

ApiReply page_reply(const PresenceFeed& feed, const EventPage& page) {
    std::string changes;
    for (const StoredEvent& event : page.events) {
        if (!changes.empty()) changes += ',';
        changes += feed.json(event);
    }
    return {.body = fmt::format(R"({{"changes":[{}],"cursor":"{}","more":{}}})", changes,
                                feed.cursor(page.upto), page.upto < feed.last())};
}

/// Server-sent events, each with the cursor after it as its id.
class PresenceStream {
public:
    PresenceStream(PresenceFeed& feed, EventNumber after)
        : feed_(feed), place_(feed.places()), after_(after) {}

    /// The next text to write; "" if the stream has ended.
    awaitable<std::string> next() {
        if (has_ended_) co_return "";
        if (!std::exchange(has_begun_, true)) co_return position();
        const EventNumber before = after_;
        const auto page = co_await feed_.read(after_, changes_streamed,
                                              std::chrono::steady_clock::now() + stream_pulse);
        if (!feed_.has_all_after(before)) co_return end();
        if (!page) co_return "";  // the reader connects again, from its last event on
        after_ = page->upto;
        if (page->events.empty()) co_return position();
        std::string text;
        for (const StoredEvent& event : page->events)
            text += fmt::format("id: {}\nevent: presence\ndata: {}\n\n", feed_.cursor(event.number),
                                feed_.json(event));
        co_return text;
    }

private:
    /// An id without data is no event, but the client remembers it.
    std::string position() const { return fmt::format("id: {}\n\n", feed_.cursor(after_)); }

    std::string end() {
        has_ended_ = true;
        return fmt::format("event: gone\ndata: {}\n\n", gone_reply(feed_).body);
    }

    PresenceFeed& feed_;
    const ReaderPlaces::Place place_;
    EventNumber after_;
    bool has_begun_ = false;
    bool has_ended_ = false;
};

ApiReply stream_reply(PresenceFeed& feed, EventNumber after) {
    if (!feed.places().has_room()) return feed_full();
    return {.content_type = "text/event-stream",
            .stream = [stream = std::make_shared<PresenceStream>(feed, after)] {
                return stream->next();
            }};
}

/// Where the reader wants to continue; nothing: with events from now on.
std::optional<std::string> cursor_asked(const ApiRequest& request, bool is_stream) {
    if (is_stream && !request.last_event_id.empty()) return std::string(request.last_event_id);
    return request.query.text("after");
}

}  // namespace

PresenceFeed::PresenceFeed(boost::asio::io_context& io, DataStore& store, bool is_on)
    : io_(io), store_(store), is_on_(is_on), news_(io) {
    if (is_on) store_.watch_events([this] { news_.tell(); });
}

std::string PresenceFeed::cursor(EventNumber number) const { return event_id(log().log, number); }

std::string PresenceFeed::json(const StoredEvent& event) const {
    return event_json(log().log, event);
}

std::optional<PresenceFeed::Cursor> PresenceFeed::read_cursor(std::string_view text) {
    const auto dash = std::min(text.find('-'), text.size());
    Cursor cursor{};
    if (dash == text.size() || !read_number(text.substr(0, dash), cursor.log, 16) ||
        !read_number(text.substr(dash + 1), cursor.number, 10))
        return std::nullopt;
    return cursor;
}

bool PresenceFeed::has_all_after(Cursor cursor) const {
    const EventLogState state = log();
    // If the log has lost this event, the change of presence that it reported is lost as well.
    const bool is_lost = cursor.number > state.lost_after && cursor.number <= state.lost_upto;
    return cursor.log == state.log && !is_lost && cursor.number <= state.last &&
           has_all_after(cursor.number);
}

awaitable<std::optional<EventPage>> PresenceFeed::read(EventNumber after, std::size_t most,
                                                       EventNews::Time deadline) {
    EventPage page{.events = {}, .upto = after};
    for (;;) {
        if (log().last > page.upto) {
            auto found = co_await read_once(page.upto, most);
            if (!found || found->upto <= page.upto) co_return std::nullopt;
            page = *std::move(found);
            if (!page.events.empty()) co_return page;
        } else if (std::chrono::steady_clock::now() >= deadline) {
            co_return page;
        } else {
            co_await news_.wait(deadline);
        }
    }
}

awaitable<std::optional<EventPage>> PresenceFeed::read_once(EventNumber after, std::size_t most) {
    using Found = std::optional<EventPage>;
    const auto ask = [this, after, most](auto answer) {
        store_.ledger().read_events(
            after, kinds_of(EventKind::presence), most,
            [answer](Outcome outcome, EventPage page) mutable {
                answer(outcome == Outcome::committed ? Found(std::move(page)) : Found());
            });
    };
    co_return co_await await_result<Found>(io_, ask, store_deadline());
}

awaitable<ApiReply> show_presence_changes(const ApiContext& api, const ApiRequest& request) {
    PresenceFeed& feed = api.feed;
    if (!feed.is_on()) co_return feed_off();
    const Query& query = request.query;
    const std::size_t most = page_size(query);
    const auto wait = query.number("wait", 0, longest_poll).value_or(0);
    const bool is_stream = request.accept.find("text/event-stream") != std::string_view::npos;
    EventNumber after = feed.last();
    if (const auto asked = cursor_asked(request, is_stream)) {
        const auto cursor = PresenceFeed::read_cursor(*asked);
        if (!cursor)
            throw BadRequest(ApiError::bad_parameter,
                             "'after' is not a cursor: send the cursor of an earlier answer");
        if (!feed.has_all_after(*cursor)) co_return gone_reply(feed);
        after = cursor->number;
    }
    if (is_stream) co_return stream_reply(feed, after);
    if (wait > 0 && !feed.places().has_room()) co_return feed_full();
    std::optional<ReaderPlaces::Place> place;
    if (wait > 0) place.emplace(feed.places());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(wait);
    const auto page = co_await feed.read(after, most, deadline);
    if (!feed.has_all_after(after)) co_return gone_reply(feed);
    if (!page) co_return store_refusal(api, "changes can't be read");
    co_return page_reply(feed, *page);
}

}  // namespace pulsegate
