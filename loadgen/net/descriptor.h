#pragma once

#include <unistd.h>

#include <utility>

namespace pulsegate::load {

/// Owns a file descriptor.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& from) noexcept : number_(std::exchange(from.number_, -1)) {}
    Descriptor& operator=(Descriptor&& from) noexcept {
        if (this != &from) reset(from.release());
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

    int release() { return std::exchange(number_, -1); }
    void reset(int number = -1) {
        if (number_ >= 0) ::close(number_);
        number_ = number;
    }

private:
    int number_ = -1;
};

}  // namespace pulsegate::load
