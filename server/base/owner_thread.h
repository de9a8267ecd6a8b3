#pragma once

#include <cassert>
#include <memory>

namespace pulsegate {

/// Asserts that only one thread uses an object: the first thread that uses it after another thread
/// has built it. When that thread has ended, any thread may use the object, to destroy it. In a
/// release build this costs neither memory nor time:
///
///     bool Router::unsubscribe(...) {
///         thread_.assert_here();
///     ...
///     [[no_unique_address]] OwnerThread thread_;
///
/// Functions that are called before the owner's thread runs must not assert, because the calling
/// thread would become the owner.
class OwnerThread {
public:
    void assert_here() const { assert(is_here() && "this object belongs to another thread"); }

    /// True if this thread may use the object.
#ifdef NDEBUG
    bool is_here() const { return true; }
#else
    bool is_here() const {
        if (owner_.expired()) owner_ = this_thread();
        return !owner_.owner_before(this_thread()) && !this_thread().owner_before(owner_);
    }

private:
    static const std::shared_ptr<const char>& this_thread() {
        thread_local const auto lives = std::make_shared<const char>();
        return lives;
    }

    mutable std::weak_ptr<const char> owner_;
#endif
};

}  // namespace pulsegate
