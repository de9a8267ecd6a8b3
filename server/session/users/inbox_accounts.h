#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <mutex>
#include <optional>

#include "server/base/limit.h"
#include "server/session/terms/sender_shares.h"

namespace pulsegate {

/// The number of inboxes on all shards, and each sender's share in them. An inbox counts for every
/// sender with a message in it. The gateway's own messages have no sender. Any thread may use it.
class InboxAccounts {
public:
    using Sender = SenderShares::Sender;
    static constexpr Sender gateway = 0;

    struct Share {
        std::size_t inboxes = 0;
        std::size_t bytes = 0;
    };

    /// An addition to a share, until its message is in the inbox. Then the message itself counts,
    /// and the claim ends.
    class Claim {
    public:
        Claim(InboxAccounts& accounts, Sender sender, const Share& share)
            : accounts_(&accounts), sender_(sender), share_(share) {}
        ~Claim() {
            if (accounts_) accounts_->subtract(sender_, share_);
        }
        Claim(Claim&& other) noexcept
            : accounts_(other.accounts_), sender_(other.sender_), share_(other.share_) {
            other.accounts_ = nullptr;
        }
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;
        Claim& operator=(Claim&&) = delete;

    private:
        InboxAccounts* accounts_;
        const Sender sender_;
        const Share share_;
    };

    /// Returns the limit that forbids the addition. If there is none, claims the share.
    std::optional<Limit> claim(Sender sender, const Share& more, const Share& most);

    void add(Sender sender, const Share& more);
    void subtract(Sender sender, const Share& less);

    /// Counts one more inbox, if there are fewer than `most`.
    [[nodiscard]] bool open(std::size_t most);
    void open_anyway();
    void close();

private:
    std::mutex mutex_;
    std::size_t inboxes_ = 0;
    boost::unordered_flat_map<Sender, Share> shares_;
};

}  // namespace pulsegate
