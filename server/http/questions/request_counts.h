#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace pulsegate {

/// Counts the answered requests to the API, by kind. It belongs to the API's thread.
class RequestCounts {
public:
    /// The labels of a request in the metrics. Its texts are constants with few values, so no peer
    /// can add many kinds.
    struct Kind {
        std::string_view route;
        std::string_view method;
        unsigned status;

        auto operator<=>(const Kind&) const = default;  // NOLINT(modernize-use-nullptr)
    };

    void count(const Kind& kind) { ++counts_[kind]; }

    /// Calls `visit(const Kind&, std::uint64_t)`.
    template <class Visit>
    void for_each(Visit visit) const {
        for (const auto& [kind, count] : counts_) visit(kind, count);
    }

private:
    std::map<Kind, std::uint64_t> counts_;
};

}  // namespace pulsegate
