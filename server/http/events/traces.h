#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/events/event_news.h"
#include "server/http/questions/api_context.h"
#include "server/http/serving/reader_places.h"
#include "server/session/trace/trace.h"

namespace pulsegate {

/// The traces that clients of the API read now. It belongs to the API's thread.
class Traces {
public:
    /// `io` is the API's. This object outlives the threads of the shards.
    explicit Traces(boost::asio::io_context& io) : news_(io) {}

    std::shared_ptr<Trace> make(TraceTarget target) {
        return std::make_shared<Trace>(std::move(target), [this] { news_.tell(); });
    }

    /// The places of their readers.
    ReaderPlaces& places() { return places_; }

    /// Waits until one of the traces has an event, or until the deadline.
    boost::asio::awaitable<void> wait(EventNews::Time deadline) { return news_.wait(deadline); }

    static constexpr std::size_t most_open = 8;

private:
    EventNews news_;
    ReaderPlaces places_{most_open};
};

/// GET /api/v1/trace
boost::asio::awaitable<ApiReply> show_trace(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
