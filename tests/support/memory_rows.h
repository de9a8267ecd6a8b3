#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cluster/row_store.h"

namespace pulsegate {

/// A row store in memory. The test chooses its answers. Any thread may change what it answers.
class MemoryRows final : public RowStore {
public:
    /// What happens with a write: its answer, and whether it is made.
    struct Fate {
        Answer answer = Answer::done;
        bool is_made = true;
    };
    /// Is asked before each write, from the ledger's thread.
    using Judge = std::function<Fate(const std::vector<RowChange>& changes, bool may_overfill)>;

    void judge_by(Judge judge) {
        const std::lock_guard lock(mutex_);
        judge_ = std::move(judge);
    }
    void empty() {
        const std::lock_guard lock(mutex_);
        rows_.clear();
        is_emptied_ = true;
    }
    std::size_t writes() const {
        const std::lock_guard lock(mutex_);
        return writes_;
    }
    std::size_t looks() const {
        const std::lock_guard lock(mutex_);
        return looks_;
    }
    std::map<RowKey, std::string> rows() const {
        const std::lock_guard lock(mutex_);
        return rows_;
    }
    void put(const RowKey& key, std::string value) {
        const std::lock_guard lock(mutex_);
        rows_[key] = std::move(value);
    }

    void read_rows(const Visit& visit) override {
        for (const auto& [key, value] : rows()) visit(key, value);
    }

    Result write(const std::vector<RowChange>& changes, bool may_overfill) override {
        const std::lock_guard lock(mutex_);
        ++writes_;
        if (is_emptied_) return result_of(Answer::emptied);
        const Fate fate = judge_ ? judge_(changes, may_overfill) : Fate{};
        if (fate.is_made) make(changes);
        return result_of(fate.answer);
    }

    Result rewrite(const std::vector<RowChange>& rows) override {
        const std::lock_guard lock(mutex_);
        make(rows);
        if (rows.empty()) is_emptied_ = false;
        return {};
    }

    Result look() override {
        const std::lock_guard lock(mutex_);
        ++looks_;
        return result_of(is_emptied_ ? Answer::emptied : Answer::done);
    }

    void leave() override {}

private:
    static Result result_of(Answer answer) {
        return {answer, answer == Answer::done ? "" : "the test says so"};
    }

    void make(const std::vector<RowChange>& changes) {
        for (const auto& [key, value] : changes)
            if (value)
                rows_[key] = *value;
            else
                rows_.erase(key);
    }

    mutable std::mutex mutex_;
    std::map<RowKey, std::string> rows_;
    Judge judge_;
    std::size_t writes_ = 0;
    std::size_t looks_ = 0;
    bool is_emptied_ = false;
};

}  // namespace pulsegate
