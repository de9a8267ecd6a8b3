#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace pulsegate {

/// The return type of a coroutine that nobody waits for. It runs at once, up to where it first
/// waits. At its end its frame is destroyed; before, the frame belongs to the SuspendedCoroutine
/// that its awaiter must make of it.
struct DetachedCoroutine {
    struct promise_type {
        DetachedCoroutine get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
    };
};

/// Owns a coroutine that waits: either it is resumed, once, or it is destroyed with all that is in
/// its frame. On whatever thread it is resumed or destroyed, it belongs to one at a time.
class SuspendedCoroutine {
public:
    explicit SuspendedCoroutine(std::coroutine_handle<> coroutine) : coroutine_(coroutine) {}
    SuspendedCoroutine(SuspendedCoroutine&& other) noexcept
        : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    SuspendedCoroutine& operator=(SuspendedCoroutine&& other) noexcept {
        std::swap(coroutine_, other.coroutine_);
        return *this;
    }
    ~SuspendedCoroutine() {
        if (coroutine_) coroutine_.destroy();
    }

    /// Goes on until it waits again, which makes a new SuspendedCoroutine, or ends.
    void resume() { std::exchange(coroutine_, nullptr).resume(); }

private:
    std::coroutine_handle<> coroutine_;
};

}  // namespace pulsegate
