#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <mutex>
#include <utility>

#include "server/limits/address.h"

namespace pulsegate {

/// Limits the gateway's memory for peers that have not logged in: TLS handshakes, headers of
/// upgrades, and waiting CONNECTs with their credentials. An address may use as much as all
/// addresses leave free, so other addresses find room however much one sends (Choudhury and Hahne,
/// 1998). Any thread may use it.
class UnauthenticatedMemory {
public:
    explicit UnauthenticatedMemory(std::size_t budget) : budget_(budget) {}

    /// Memory above the limit stays.
    void use(std::size_t budget);

    /// Bytes that count until the share is destroyed.
    class Share {
    public:
        Share() = default;
        Share(Share&& other) noexcept
            : owner_(std::exchange(other.owner_, nullptr)),
              address_(other.address_),
              bytes_(other.bytes_) {}
        Share& operator=(Share&& other) noexcept {
            std::swap(owner_, other.owner_);
            std::swap(address_, other.address_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~Share() {
            if (owner_) owner_->give_back(address_, bytes_);
        }

        std::size_t bytes() const { return owner_ ? bytes_ : 0; }

    private:
        friend class UnauthenticatedMemory;

        UnauthenticatedMemory* owner_ = nullptr;  ///< null: the share is empty
        Address address_{};
        std::size_t bytes_ = 0;
    };

    /// Changes the size of the share, which belongs to this address from now on. Returns false and
    /// changes nothing if the address has too much already. The size of a usual CONNECT is never
    /// refused.
    [[nodiscard]] bool resize(Share& share, const Address& address, std::size_t bytes);

    std::size_t used() const;
    std::size_t budget() const;

    static constexpr std::size_t always_kept = 1024;

private:
    void give_back(const Address& address, std::size_t bytes);
    void remove(const Address& address, std::size_t bytes);

    mutable std::mutex mutex_;
    std::size_t budget_;
    std::size_t used_ = 0;
    boost::unordered_flat_map<Address, std::size_t> by_address_;
};

}  // namespace pulsegate
