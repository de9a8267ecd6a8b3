#pragma once

#include <atomic>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "server/message/message.h"

namespace pulsegate {

class RetainedSeats;

/// The place of one topic in the count of all retained messages. The message has it on its way to
/// the shards, and as long as any shard keeps the message. A message that replaces it takes over
/// the same seat. The seat is given back when the topic is deleted, or with the last message that
/// has it.
class RetainedSeat {
public:
    explicit RetainedSeat(std::shared_ptr<RetainedSeats> seats) : seats_(std::move(seats)) {}
    ~RetainedSeat();
    RetainedSeat(const RetainedSeat&) = delete;
    RetainedSeat& operator=(const RetainedSeat&) = delete;

    /// The topic has had no message since that stamp.
    void give_back(std::uint64_t stamp);

private:
    friend class RetainedSeats;
    friend void intrusive_ptr_add_ref(RetainedSeat* seat);
    friend void intrusive_ptr_release(RetainedSeat* seat);

    const std::shared_ptr<RetainedSeats> seats_;
    std::atomic<std::uint32_t> references_{0};
    // The state in the accounts, guarded by the mutex of RetainedSeats.
    bool is_charged_ = false;
    std::uint64_t stamp_ = 0;
    std::uint64_t sender_ = 0;
    std::size_t bytes_ = 0;
};

/// The number and the bytes of the retained messages of all shards; each message counts once. Any
/// thread may use it, so that two shards can't use the same room.
class RetainedSeats : public std::enable_shared_from_this<RetainedSeats> {
public:
    struct Limits {
        std::size_t messages;
        std::size_t bytes;
        std::size_t messages_of_user = SIZE_MAX;
        std::size_t bytes_of_user = SIZE_MAX;
    };

    /// A seat for the message: the seat of its topic's `present` message (which may be null), if
    /// that is not given back yet. Returns null if there is no room.
    RetainedSeatRef take(const RetainedSeatRef& present, const Message& message,
                         const Limits& limits);
    /// The same for a message from before a restart.
    RetainedSeatRef take_anyway(const Message& message);

private:
    friend class RetainedSeat;

    struct Share {
        std::size_t messages = 0;
        std::size_t bytes = 0;
    };
    Share share_of(std::uint64_t sender) const;
    bool has_room(const RetainedSeat* present, const Message& message, const Limits& limits) const;
    /// Charges the seat's message to its user and to the gateway; `release` ends that.
    void charge(RetainedSeat& seat, const Message& message);
    void release(RetainedSeat& seat);

    mutable std::mutex mutex_;
    Share all_;
    boost::unordered_flat_map<std::uint64_t, Share> users_;  ///< by Message::sender
};

}  // namespace pulsegate
