#pragma once

#include <cstddef>
#include <memory>

namespace pulsegate {

/// Limits the readers of streams that wait at a time: each has a connection to the API.
class ReaderPlaces {
public:
    explicit ReaderPlaces(std::size_t most) : most_(most) {}

    bool has_room() const { return *taken_ < most_; }

    /// The place of one reader.
    class Place {
    public:
        explicit Place(ReaderPlaces& places) : taken_(places.taken_) { ++*taken_; }
        ~Place() { --*taken_; }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

    private:
        const std::shared_ptr<std::size_t> taken_;
    };

private:
    const std::size_t most_;
    /// Shared, because readers that still wait at the end are destroyed by the API's `io`, after
    /// this.
    const std::shared_ptr<std::size_t> taken_ = std::make_shared<std::size_t>(0);
};

}  // namespace pulsegate
