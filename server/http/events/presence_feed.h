#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/events/event_news.h"
#include "server/http/questions/api_context.h"
#include "server/http/serving/reader_places.h"
#include "server/shard/data_store.h"

namespace pulsegate {

/// The changes of presence in the event log, for readers that return with a cursor. Its coroutines
/// run on the API's thread.
class PresenceFeed {
public:
    /// `io` is the API's. `store` ends before the API does.
    PresenceFeed(boost::asio::io_context& io, DataStore& store, bool is_on);

    bool is_on() const { return is_on_; }

    /// The cursor after the event with this number.
    std::string cursor(EventNumber number) const;
    std::string json(const StoredEvent& event) const;
    /// Nothing if the text is not a cursor.
    struct Cursor {
        std::uint64_t log;
        EventNumber number;
    };
    static std::optional<Cursor> read_cursor(std::string_view text);

    /// True if the log still has all events after the one with this number, and if that event
    /// itself was not lost in a crash.
    bool has_all_after(Cursor cursor) const;
    bool has_all_after(EventNumber number) const { return log().first <= number + 1; }
    EventNumber last() const { return log().last; }

    /// The next changes, at most `most`; none if the deadline comes first. Nothing if the store
    /// can't be read. Call `has_all_after` again afterwards.
    boost::asio::awaitable<std::optional<EventPage>> read(EventNumber after, std::size_t most,
                                                          EventNews::Time deadline);

    /// The places of waiting readers.
    ReaderPlaces& places() { return places_; }

private:
    static constexpr std::size_t most_readers = 48;

    EventLogState log() const { return store_.ledger().events(); }
    boost::asio::awaitable<std::optional<EventPage>> read_once(EventNumber after, std::size_t most);

    boost::asio::io_context& io_;
    DataStore& store_;
    const bool is_on_;
    EventNews news_;
    ReaderPlaces places_{most_readers};
};

/// GET /api/v1/presence/changes
boost::asio::awaitable<ApiReply> show_presence_changes(const ApiContext& api,
                                                       const ApiRequest& request);

}  // namespace pulsegate
