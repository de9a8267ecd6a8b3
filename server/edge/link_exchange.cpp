#include "server/edge/link_exchange.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/cluster/link/frame_stream.h"
#include "server/edge/edge_frames.h"

namespace pulsegate {

/// A stream may call it after the end of the exchange, so the stream keeps it alive.
class LinkExchange::State : public std::enable_shared_from_this<State> {
public:
    State(Side side, Shards shards) : side_(side), shards_(std::move(shards)) {}

    void add(const std::shared_ptr<FrameStream>& stream) {
        const std::lock_guard delivering(delivery_);
        const std::uint64_t link = enter(stream);
        tell_all({.kind = LinkMail::Kind::begun,
                  .link = link,
                  .peer_shards = static_cast<std::uint16_t>(stream->peer().shards),
                  .node = stream->peer().incarnation,
                  .version = static_cast<std::uint16_t>(stream->peer().versions.last)});
        stream->begin({.received =
                           [self = shared_from_this(), link,
                            weak = std::weak_ptr(stream)](std::string_view frames) {
                               if (self->receive(link, frames)) return;
                               if (const auto bad = weak.lock())
                                   bad->end("it sent a malformed frame");
                           },
                       .ended = [self = shared_from_this(),
                                 link](const std::string& why) { self->lose(link, why); },
                       .is_full = [self = shared_from_this()] { return self->are_behind(); },
                       .changed =
                           [self = shared_from_this(), link,
                            weak = std::weak_ptr(stream)](bool is_connected) {
                               const auto changed = weak.lock();
                               const Millis silence = changed ? changed->silence() : 0;
                               self->tell_change(link, is_connected, silence);
                           }});
    }

    std::size_t send(std::uint64_t link, std::string_view frames) const {
        const auto stream = find(link);
        return stream ? stream->send(frames) : 0;
    }

    std::size_t waiting(std::uint64_t link) const {
        const auto stream = find(link);
        return stream ? stream->waiting() : 0;
    }

    /// True only after all shards were told of the link.
    bool is_linked() const {
        const std::lock_guard delivering(delivery_);
        const std::lock_guard lock(mutex_);
        return !streams_.empty();
    }

    std::size_t waiting() const {
        const std::lock_guard lock(mutex_);
        std::size_t sum = 0;
        for (const auto& [link, stream] : streams_) sum += stream->waiting();
        return sum;
    }

    void end_all(const std::string& why) {
        std::map<std::uint64_t, std::shared_ptr<FrameStream>> streams;
        {
            const std::lock_guard lock(mutex_);
            streams = streams_;
        }
        for (const auto& [link, stream] : streams) stream->end(why);
    }

    void close() {
        const std::lock_guard delivering(delivery_);
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
    }

private:
    std::uint64_t enter(const std::shared_ptr<FrameStream>& stream) {
        const std::lock_guard lock(mutex_);
        if (is_closed_) stream->end("this node ends");
        streams_.emplace(++last_, stream);
        return last_;
    }

    std::shared_ptr<FrameStream> find(std::uint64_t link) const {
        const std::lock_guard lock(mutex_);
        const auto found = streams_.find(link);
        return found == streams_.end() ? nullptr : found->second;
    }

    bool are_behind() {
        const std::lock_guard delivering(delivery_);
        return !is_closed_ && shards_.are_behind();
    }

    bool receive(std::uint64_t link, std::string_view frames) {
        std::vector<std::string> parts(shards_.count);
        while (!frames.empty()) {
            const char* const begin = frames.data();
            const auto frame = take_edge_frame(frames);
            if (!frame) return false;
            const unsigned shard = side_ == Side::home ? frame->home_shard : frame->edge_shard;
            if (shard >= shards_.count) return false;
            parts[shard].append(begin, frames.data());
        }
        const std::lock_guard delivering(delivery_);
        if (is_closed_) return true;
        for (unsigned shard = 0; shard < shards_.count; ++shard)
            if (!parts[shard].empty())
                shards_.deliver(shard, {.kind = LinkMail::Kind::frames,
                                        .link = link,
                                        .frames = std::move(parts[shard])});
        return true;
    }

    void tell_change(std::uint64_t link, bool is_connected, Millis silence) {
        const std::lock_guard delivering(delivery_);
        tell_all({.kind = is_connected ? LinkMail::Kind::connected : LinkMail::Kind::cut_off,
                  .link = link,
                  .silence = silence});
    }

    void lose(std::uint64_t link, const std::string& why) {
        {
            const std::lock_guard lock(mutex_);
            if (streams_.erase(link) == 0) return;
        }
        spdlog::warn("link: {}", why);
        const std::lock_guard delivering(delivery_);
        tell_all({.kind = LinkMail::Kind::ended, .link = link});
    }

    /// The caller has locked `delivery_`.
    void tell_all(const LinkMail& mail) {
        if (is_closed_) return;
        for (unsigned shard = 0; shard < shards_.count; ++shard) shards_.deliver(shard, mail);
    }

    const Side side_;
    const Shards shards_;
    mutable std::mutex delivery_;  ///< held while shards are called; lock it before `mutex_`
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<FrameStream>> streams_;
    std::uint64_t last_ = 0;
    bool is_closed_ = false;
};

LinkExchange::LinkExchange(Side side, Shards shards)
    : state_(std::make_shared<State>(side, std::move(shards))) {}

std::size_t LinkExchange::waiting(std::uint64_t link) const { return state_->waiting(link); }

std::size_t LinkExchange::waiting() const { return state_->waiting(); }

void LinkExchange::close() {
    state_->close();
    state_->end_all("this node ends");
}

void LinkExchange::add(std::shared_ptr<FrameStream> stream) { state_->add(stream); }

std::size_t LinkExchange::send(std::uint64_t link, std::string_view frames) {
    return state_->send(link, frames);
}

bool LinkExchange::is_linked() const { return state_->is_linked(); }

void LinkExchange::end_all(const std::string& why) { state_->end_all(why); }

}  // namespace pulsegate
