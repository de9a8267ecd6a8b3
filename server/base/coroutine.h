#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace pulsegate {

/// The return type of a coroutine that nobody awaits. It runs at once until it first waits. Its
/// awaiter must then make a SuspendedCoroutine, which owns the frame. The frame is destroyed at the
/// coroutine's end.
struct DetachedCoroutine {
    struct promise_type {
        DetachedCoroutine get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
    };
};

/// Owns a suspended coroutine, which is either resumed once or destroyed with its frame. Any thread
/// may do so, but it belongs to one thread at a time.
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

    /// Runs the coroutine until it ends or waits again, which makes a new SuspendedCoroutine.
    void resume() { std::exchange(coroutine_, nullptr).resume(); }

private:
    std::coroutine_handle<> coroutine_;
};

}  // namespace pulsegate
