#include "server/transport/tls/key_pool.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace pulsegate {

namespace {

/// Chunks begin at multiples of their size, so the address of a slot shows its chunk.
constexpr std::size_t chunk_size = 64 * 1024;

/// Null if there is no memory.
void* map_aligned() {
    constexpr std::size_t asked = 2 * chunk_size;
    void* const memory =
        ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::uint8_t*>(memory);
    const auto before =
        (chunk_size - reinterpret_cast<std::uintptr_t>(begin) % chunk_size) % chunk_size;
    if (before > 0) ::munmap(begin, before);
    ::munmap(begin + before + chunk_size, asked - before - chunk_size);
    ::madvise(begin + before, chunk_size, MADV_DONTDUMP);
    return begin + before;
}

}  // namespace

struct KeyPool::Chunk {
    Chunk* before;
    Chunk* after;
    std::uint8_t* free;     ///< the first free slot; each free slot has the address of the next one
    std::uint32_t slot;     ///< bytes of each slot
    std::uint32_t used;     ///< slots that are in use
    std::uint32_t touched;  ///< bytes up to the end of the last slot that was ever in use

    bool has_room() const { return free || touched + slot <= chunk_size; }

    std::uint8_t* take() {
        ++used;
        if (!free) {
            auto* const fresh = reinterpret_cast<std::uint8_t*>(this) + touched;
            touched += slot;
            return fresh;
        }
        std::uint8_t* const taken = free;
        std::memcpy(&free, taken, sizeof free);
        std::fill_n(taken, sizeof free, std::uint8_t{0});
        return taken;
    }

    void give_back(std::uint8_t* taken) {
        OPENSSL_cleanse(taken, slot);
        std::memcpy(taken, &free, sizeof free);
        free = taken;
        --used;
    }
};

KeyPool& KeyPool::of_process() {
    static KeyPool* const pool = new KeyPool;
    return *pool;
}

KeyPool::~KeyPool() {
    for (Chunk* chunk : with_room_) {
        while (chunk) {
            Chunk* const next = chunk->after;
            ::munmap(chunk, chunk_size);
            chunk = next;
        }
    }
}

std::size_t KeyPool::place_of(std::size_t size) {
    return static_cast<std::size_t>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin());
}

KeyPool::Chunk* KeyPool::map(std::size_t size) {
    void* const memory = map_aligned();
    if (!memory) return nullptr;
    auto* const chunk = new (memory) Chunk{};
    chunk->slot = static_cast<std::uint32_t>(size);
    chunk->touched = (sizeof(Chunk) + 7) / 8 * 8;
    ++chunks_;
    link(chunk);
    return chunk;
}

void KeyPool::unmap(Chunk* chunk) {
    unlink(chunk);
    --chunks_;
    ::munmap(chunk, chunk_size);
}

void KeyPool::link(Chunk* chunk) {
    Chunk*& first = with_room_[place_of(chunk->slot)];
    chunk->before = nullptr;
    chunk->after = first;
    if (first) first->before = chunk;
    first = chunk;
}

void KeyPool::unlink(Chunk* chunk) {
    if (chunk->after) chunk->after->before = chunk->before;
    (chunk->before ? chunk->before->after : with_room_[place_of(chunk->slot)]) = chunk->after;
}

std::uint8_t* KeyPool::take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    Chunk* chunk = with_room_[place_of(size)];
    if (!chunk) chunk = map(size);
    if (!chunk) return nullptr;
    std::uint8_t* const slot = chunk->take();
    if (!chunk->has_room()) unlink(chunk);
    return slot;
}

void KeyPool::give_back(std::uint8_t* slot) noexcept {
    const std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<std::uintptr_t>(slot);
    auto* const chunk = reinterpret_cast<Chunk*>(slot - address % chunk_size);
    if (!chunk->has_room()) link(chunk);
    chunk->give_back(slot);
    // Kept, because the next client would map another one.
    const bool is_last = !chunk->before && !chunk->after;
    if (chunk->used == 0 && !is_last) unmap(chunk);
}

std::size_t KeyPool::mapped() const {
    const std::lock_guard lock(mutex_);
    return chunks_ * chunk_size;
}

}  // namespace pulsegate
