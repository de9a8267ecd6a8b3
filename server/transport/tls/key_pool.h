#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace pulsegate {

/// Memory for the keys of TLS connections. It is in separate mappings, which core files leave out,
/// and is wiped when it is freed. Any thread may use it.
class KeyPool {
public:
    /// The size of one connection's keys, for each suite.
    static constexpr std::array<std::size_t, 3> sizes = {136, 168, 200};

    /// It is never destroyed: the last connections may end after it.
    static KeyPool& of_process();

    KeyPool() = default;
    KeyPool(const KeyPool&) = delete;
    KeyPool& operator=(const KeyPool&) = delete;
    ~KeyPool();

    /// Returns zeroed memory of one of the sizes, or null if there is no memory.
    [[nodiscard]] std::uint8_t* take(std::size_t size);
    void give_back(std::uint8_t* slot) noexcept;

    /// The bytes of all its mappings.
    std::size_t mapped() const;

private:
    struct Chunk;

    static std::size_t place_of(std::size_t size);
    Chunk* map(std::size_t size);
    void unmap(Chunk* chunk);
    void link(Chunk* chunk);
    void unlink(Chunk* chunk);

    mutable std::mutex mutex_;
    std::array<Chunk*, sizes.size()> with_room_{};  ///< the first chunk of each size that has room
    std::size_t chunks_ = 0;
};

}  // namespace pulsegate
