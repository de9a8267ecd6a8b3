#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace pulsegate {

/// Which topics a shard may have subscribers for: a counting Bloom filter of the shard's topic
/// filters, readable from every thread. It has false positives, but no false negatives: a filter is
/// added before its SUBACK is sent.
///
/// A filter without wildcards is counted by its text, one with wildcards by its first level, and
/// filters that begin with a wildcard together.
class Interest {
public:
    Interest();

    /// Call it once for each filter that has subscribers, or will have. From any thread: a
    /// subscription in the shard's mailbox counts already.
    void add(std::string_view filter);
    void remove(std::string_view filter);

    /// A topic, hashed once for the Interest of every shard.
    class Topic {
    public:
        Topic(std::string_view topic);

    private:
        friend class Interest;
        std::size_t whole_;
        std::size_t first_level_;
    };

    bool wants(const Topic& topic) const;

private:
    /// Counts are raised before the SUBACK is sent, so a client that publishes after a SUBACK finds
    /// the subscriber. With 100,000 filters nine of a hundred other topics wake the shard in vain.
    /// The memory of cells that no filter uses is never touched, so it is not taken either.
    static constexpr std::size_t cells = 1 << 20;
    struct Free {
        void operator()(std::uint32_t* memory) const { std::free(memory); }
    };

    /// Null for a filter that begins with a wildcard.
    std::uint32_t* cell(std::string_view filter);
    bool counted(std::size_t cell) const {
        return std::atomic_ref(cells_[cell]).load(std::memory_order_seq_cst) != 0;
    }

    const std::unique_ptr<std::uint32_t[], Free> cells_;
    std::atomic<std::uint32_t> anything_{0};
};

}  // namespace pulsegate
