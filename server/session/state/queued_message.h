#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/message/message.h"
#include "server/session/terms/queued_head.h"
#include "server/store/ledger/ledger.h"

namespace pulsegate {

class QueuedBodies;
struct QueuedMessage;
using Queue = std::list<QueuedMessage>;

/// The body of a queued message in memory. Receivers that got a message one after another, such as
/// the members of a room, share one body.
struct QueuedBody : boost::intrusive::list_base_hook<> {
    QueuedBody(MessageRef message, Millis expires, bool has_details = false)
        : message(std::move(message)), expires(expires), has_details(has_details) {}
    ~QueuedBody();

    MessageRef message;              ///< null if only the store has it
    const Millis expires;            ///< when the message expires; 0: never
    QueuedBodies* bodies = nullptr;  ///< the list that contains it
    /// The only queued message with this body; null: several share it.
    QueuedMessage* in_queue = nullptr;
    std::uint64_t unit = 0;  ///< the journal's unit with which it is stored at the
                             ///< latest
    std::uint32_t references = 0;
    const bool has_details;  ///< it is a QueuedDelivery
};

/// The body and other data that the store does not have, of a message for one receiver.
struct QueuedDelivery : QueuedBody {
    QueuedDelivery(MessageRef message, Millis expires, OwnerId owner)
        : QueuedBody(std::move(message), expires, true), owner(owner) {}

    OwnerId owner;            ///< the owner that has the message in the store, or 0
    bool from_inbox = false;  ///< see Delivery
    std::vector<std::uint32_t> identifiers{};  ///< see Delivery
    std::shared_ptr<const std::string> share{};
};

static_assert(sizeof(QueuedBody) <= 72);       // the next smaller allocator size than 88
static_assert(sizeof(QueuedDelivery) <= 120);  // the next smaller allocator size than 136

using QueuedBodyRef = boost::intrusive_ptr<QueuedBody>;
inline void intrusive_ptr_add_ref(QueuedBody* body) { ++body->references; }
void intrusive_ptr_release(QueuedBody* body);

/// The body of a queued message, or its expiry in the same eight bytes. So the expiry is known even
/// if the body is only in the store.
class QueuedBodySlot {
public:
    /// A slot without a body. Expiry 0: the message never expires.
    explicit QueuedBodySlot(Millis expires = 0)
        : word_(expires == 0 ? 0 : static_cast<std::uintptr_t>(expires) << 1 | is_expiry) {}
    QueuedBodySlot(QueuedBodyRef body) : word_(reinterpret_cast<std::uintptr_t>(body.detach())) {}
    QueuedBodySlot(const QueuedBodySlot& other) : QueuedBodySlot(other.copy()) {}
    QueuedBodySlot(QueuedBodySlot&& other) noexcept : word_(std::exchange(other.word_, 0)) {}
    QueuedBodySlot& operator=(QueuedBodySlot other) noexcept {
        std::swap(word_, other.word_);
        return *this;
    }
    ~QueuedBodySlot() {
        if (*this) intrusive_ptr_release(get());
    }

    explicit operator bool() const { return word_ != 0 && (word_ & is_expiry) == 0; }
    QueuedBody* get() const {
        return reinterpret_cast<QueuedBody*>(word_);  // NOLINT(performance-no-int-to-ptr)
    }
    QueuedBody* operator->() const { return get(); }
    QueuedBody& operator*() const { return *get(); }

    Millis expires() const { return *this ? get()->expires : static_cast<Millis>(word_ >> 1); }

private:
    static constexpr std::uintptr_t is_expiry = 1;  // a body's address is even

    QueuedBodySlot copy() const {
        return *this ? QueuedBodySlot(QueuedBodyRef(get())) : QueuedBodySlot(expires());
    }

    std::uintptr_t word_;
};

/// The bodies in the queues of a shard that can be left to the store. They belong to the queues.
class QueuedBodies {
public:
    /// A body for the next message that is put into a queue.
    QueuedBodyRef share(const MessageRef& message, bool is_stored);

    /// The queued message's body is stored with `unit` at the latest.
    void add(QueuedMessage& queued, std::uint64_t unit);
    /// The message leaves its queue.
    void remove(QueuedMessage& queued);

    /// The body that was added first, or null.
    const QueuedBody* oldest() const {
        return oldest_first_.empty() ? nullptr : &oldest_first_.front();
    }
    void leave_oldest_to_store();

    std::size_t bytes() const { return bytes_; }

private:
    friend struct QueuedBody;
    void forget(QueuedBody& body);

    boost::intrusive::list<QueuedBody, boost::intrusive::constant_time_size<false>> oldest_first_;
    std::size_t bytes_ = 0;
    QueuedBody* last_shared_[2] = {};  ///< for queues that are not stored, and for stored queues
};

/// The head of a message from before a restart.
QueuedHead head_of(const WaitingMessage& stored, const Receiver& receiver);

/// A message in a queue. When a queue is long, the bodies of stored messages are left to the store,
/// and read before they are sent. The rest takes 48 bytes.
struct QueuedMessage : QueuedHead {
    QueuedMessage(const QueuedHead& head, Millis expires) : QueuedHead(head), body(expires) {}
    QueuedMessage(const Delivery& waiting, QueuedBodies& bodies);
    /// A message from before a restart.
    QueuedMessage(const WaitingMessage& stored, const Receiver& receiver, Millis expires);
    /// The same message for another receiver; it shares the body.
    QueuedMessage(const QueuedMessage& other, const Receiver& receiver);
    QueuedMessage(const QueuedMessage&) = delete;
    QueuedMessage(QueuedMessage&&) = default;
    QueuedMessage& operator=(const QueuedMessage&) = delete;
    QueuedMessage& operator=(QueuedMessage&&) = default;

    /// When its Message Expiry Interval ends; 0: never.
    Millis expires() const { return body.expires(); }
    bool has_body() const { return body && body->message; }
    bool is_from_inbox() const { return has_details() && details().from_inbox; }
    /// The body of a message of a shared subscription stays in memory, because another shard has
    /// stored the message, and the message may go back there.
    bool can_be_left_to_store() const { return is_stored && !(has_details() && details().share); }
    /// The owner that has the message in the store, if it is in the queue of `owner`.
    OwnerId owner_in(OwnerId owner) const;
    /// The delivery of a message with a body, in the queue of `owner`.
    Delivery delivery(OwnerId owner) const;

    /// The body was read. The message keeps its own expiry.
    void put_body(MessageRef message);
    void drop_body();
    /// The message belongs to the inbox, and is in the queue of a device or of the inbox.
    void mark_from_inbox(bool from_inbox, OwnerId inbox);

    QueuedBodySlot body{};  ///< none: the body and the rest are only in the store

    /// Does it have more than its head and its body?
    bool has_details() const { return body && body->has_details; }

private:
    const QueuedDelivery& details() const { return static_cast<const QueuedDelivery&>(*body); }
    QueuedDelivery& make_details(OwnerId owner);
};

static_assert(sizeof(QueuedMessage) == 24);

}  // namespace pulsegate
