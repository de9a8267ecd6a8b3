#include "server/limits/unauthenticated_memory.h"

#include <algorithm>

namespace pulsegate {

bool UnauthenticatedMemory::resize(Share& share, const Address& address, std::size_t bytes) {
    if (share.bytes() == bytes && (bytes == 0 || share.address_ == address)) return true;
    const std::lock_guard lock(mutex_);
    const auto found = by_address_.find(address);
    const auto own = share.address_ == address ? share.bytes() : 0;
    const auto others = (found == by_address_.end() ? 0 : found->second) - own;
    const auto used = used_ - share.bytes() + bytes;
    const bool grows = bytes > own && bytes > always_kept;
    if (grows && (used > budget_ || others + bytes > budget_ - used)) return false;
    if (share.owner_) remove(share.address_, share.bytes_);
    share.owner_ = nullptr;
    if (bytes == 0) return true;
    used_ += bytes;
    by_address_[address] += bytes;
    share.owner_ = this;
    share.address_ = address;
    share.bytes_ = bytes;
    return true;
}

void UnauthenticatedMemory::give_back(const Address& address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    remove(address, bytes);
}

void UnauthenticatedMemory::remove(const Address& address, std::size_t bytes) {
    used_ -= bytes;
    const auto found = by_address_.find(address);
    found->second -= bytes;
    if (found->second == 0) by_address_.erase(found);
}

void UnauthenticatedMemory::use(std::size_t budget) {
    const std::lock_guard lock(mutex_);
    budget_ = budget;
}

std::size_t UnauthenticatedMemory::budget() const {
    const std::lock_guard lock(mutex_);
    return budget_;
}

std::size_t UnauthenticatedMemory::used() const {
    const std::lock_guard lock(mutex_);
    return used_;
}

}  // namespace pulsegate
