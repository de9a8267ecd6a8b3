#pragma once

#include <cstddef>
#include <new>

namespace pulsegate {

/// Base class for objects of which each message needs one for a while: `struct Receipt :
/// Recycled<Receipt>`. It keeps up to 16 KB of freed objects for later ones of the same thread. The
/// allocator itself caches only seven blocks of a size, and a burst of messages uses these up.
template <class T>
class Recycled {
public:
    static void* operator new(std::size_t size) {
        if (!spare_.first) return ::operator new(size);
        --spare_.count;
        Block* const block = spare_.first;
        spare_.first = block->next;
        return block;
    }

    static void operator delete(void* memory) {
        static_assert(sizeof(T) >= sizeof(Block));
        constexpr std::size_t most = is_checked ? 0 : 16 * 1024 / sizeof(T);
        if (spare_.count == most) return ::operator delete(memory);
        ++spare_.count;
        spare_.first = new (memory) Block{spare_.first};
    }

private:
    struct Block {
        Block* next;
    };
    struct Spare {
        ~Spare() {
            while (Block* const block = first) {
                first = block->next;
                ::operator delete(block);
            }
        }
        Block* first = nullptr;
        std::size_t count = 0;
    };

    // Disabled for AddressSanitizer, because it would not see the use of a freed object.
#ifdef PULSEGATE_SANITIZED
    static constexpr bool is_checked = true;
#else
    static constexpr bool is_checked = false;
#endif

    static inline thread_local Spare spare_;
};

/// The same for objects from `std::allocate_shared`.
template <class T>
struct RecyclingAllocator {
    using value_type = T;

    RecyclingAllocator() = default;
    template <class Other>
    RecyclingAllocator(const RecyclingAllocator<Other>&) {}

    T* allocate(std::size_t) { return static_cast<T*>(Recycled<T>::operator new(sizeof(T))); }
    void deallocate(T* memory, std::size_t) { Recycled<T>::operator delete(memory); }

    friend bool operator==(RecyclingAllocator, RecyclingAllocator) { return true; }
};

}  // namespace pulsegate
