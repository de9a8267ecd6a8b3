#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/row_change.h"
#include "server/cluster/rules/judge.h"

namespace pulsegate {

/// What pg1.lua does, on rows in memory that a failover can set back.
class ModelRedis {
public:
    static constexpr std::size_t partitions = 2;

    struct Token {
        std::uint64_t epoch = 0;
        std::string owner = "-";
        bool operator==(const Token&) const = default;
    };

    unsigned run() const { return run_; }

    /// So that a failover can lose what comes after.
    void remember(Millis now);
    /// Another run, which has lost all since then.
    void fail_over(Millis lost_since);

    void join(const std::string& incarnation) { state_.beats[incarnation] = {incarnation}; }
    /// Nothing: fenced.
    std::optional<std::vector<Beat>> beat(const Beat& beat, bool may_be_missing);
    bool condemn(const std::string& victim, std::uint64_t judged);
    bool claim(std::size_t partition, const Token& seen, const Token& taken);
    bool write(std::size_t partition, const Token& token, const RowChange& change);
    bool confirm(std::size_t partition, const Token& token,
                 const std::vector<const RowChange*>& tail);

    const Token& token(std::size_t partition) const { return state_.tokens[partition]; }
    const std::map<std::string, std::string>& rows(std::size_t partition) const {
        return state_.rows[partition];
    }

private:
    struct State {
        std::map<std::string, Beat> beats;
        std::array<Token, partitions> tokens;
        std::array<std::map<std::string, std::string>, partitions> rows;
    };

    bool is_condemned(const std::string& incarnation) const;
    void apply(std::size_t partition, const RowChange& change);

    State state_;
    std::deque<std::pair<Millis, State>> past_;
    unsigned run_ = 1;
};

}  // namespace pulsegate
