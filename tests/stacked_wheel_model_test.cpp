#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "wheel/stacked_wheel.h"

// Stacked wheels against a model, over many random operations.

using namespace pulsegate;

namespace {

constexpr Tick end_of_time = ~Tick{0};

/// How many ticks a slot of each level spans.
constexpr std::array<Tick, StackedWheel::levels> spans{1, 30, 900, 27'000, 810'000, 24'300'000};

struct Stay : StackedWheel::Node {
    explicit Stay(int number) : id(number) {}
    int id;
};

Stay& stay(StackedWheel::Node& node) { return static_cast<Stay&>(node); }

/// The same thing without levels or slots: all deadlines, sorted.
class Model {
public:
    explicit Model(Tick now) : now_(now) {}

    void schedule(int id, Tick deadline) {
        cancel(id);
        const auto place = sorted_.emplace(deadline > now_ ? deadline : now_ + 1, id);
        places_.emplace(id, place);
    }

    void cancel(int id) {
        const auto found = places_.find(id);
        if (found == places_.end()) return;
        sorted_.erase(found->second);
        places_.erase(found);
    }

    void advance(Tick now) { now_ = std::max(now, now_); }

    Tick now() const { return now_; }
    bool scheduled(int id) const { return places_.contains(id); }
    Tick deadline(int id) const { return places_.at(id)->first; }
    bool due(int id) const { return scheduled(id) && deadline(id) <= now_; }
    bool any_due() const { return !sorted_.empty() && sorted_.begin()->first <= now_; }
    std::size_t size() const { return sorted_.size(); }

private:
    using Sorted = std::multimap<Tick, int>;

    Tick now_;
    Sorted sorted_;
    std::map<int, Sorted::iterator> places_;
};

/// Does the same to stacked wheels and to the model, and stops at the first difference.
class Comparison {
public:
    Comparison(std::uint32_t seed, Tick phase) : random_(seed), wheel_(phase), model_(phase) {
        for (int id = 0; id < static_cast<int>(stays_.size()); ++id) renew(id);
    }

    void step() {
        if (below(8) == 0)
            advance();
        else
            act(any_stay());
    }

    bool over() const { return model_.now() > end_of_time / 2; }
    std::uint64_t expirations() const { return expirations_; }

private:
    std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
    int any_stay() { return static_cast<int>(below(stays_.size())); }

    /// Small or large, often a multiple of what a level spans, or next to it.
    Tick any_time(std::uint32_t levels) {
        const Tick span = spans[below(levels)];
        switch (below(6)) {
            case 0: return span * (1 + below(61)) - 1;
            case 1: return span * (1 + below(61));
            case 2: return span * (1 + below(61)) + 1;
            case 3: return 1 + below(StackedWheel::slots * span);
            case 4: return span * StackedWheel::slots * (1 + below(2));
            default: return 1 + below(40);
        }
    }

    Tick any_deadline() {
        if (below(32) == 0) return model_.now() - std::min(model_.now(), below(100));
        return model_.now() + any_time(spans.size());
    }

    /// Mostly ticks; longer than a day once in a hundred times.
    Tick any_jump() {
        switch (below(16)) {
            case 0: return 0;
            case 1: return any_time(below(32) == 0 ? 5 : 3);
            case 2:
            case 3: return any_time(2);
            default: return 1;
        }
    }

    void act(int id) {
        switch (below(8)) {
            case 0:
                wheel_.cancel(*stays_[id]);
                model_.cancel(id);
                break;
            case 1: renew(id); break;
            default: schedule(id);
        }
        check(id);
    }

    void schedule(int id) {
        const Tick deadline = any_deadline();
        wheel_.schedule(*stays_[id], deadline);
        model_.schedule(id, deadline);
    }

    void renew(int id) {
        stays_[id] = std::make_unique<Stay>(id);
        model_.cancel(id);
    }

    void advance() {
        const Tick now = model_.now() + any_jump();
        model_.advance(now);
        if (below(8) == 0) return advance_in_slices(now);
        const std::size_t most = below(4) == 0 ? below(5) : SIZE_MAX;
        std::size_t calls = 0;
        const bool more = wheel_.advance(
            now,
            [&](StackedWheel::Node& node) {
                ++calls;
                expire(stay(node).id);
            },
            most);
        require(calls <= most, "no more than wanted");
        require(!more || calls == most, "no fewer than wanted");
        require(more == model_.any_due(), "nobody was missed");
        require(wheel_.now() == model_.now(), "time as in the model");
        require(wheel_.size() == model_.size(), "size as in the model");
    }

    /// So many move down at a time, and in between anybody is scheduled or cancelled.
    void advance_in_slices(Tick now) {
        const std::size_t most_moved = 1 + below(20);
        const auto call = [&](StackedWheel::Node& node) { expire(stay(node).id); };
        while (wheel_.advance(now, call, SIZE_MAX, most_moved)) act(any_stay());
        require(!model_.any_due(), "nobody was missed in slices");
        require(wheel_.now() == model_.now(), "time as in the model, in slices");
        require(wheel_.size() == model_.size(), "size as in the model, in slices");
    }

    /// Callbacks do what sessions do, and worse: up to three acts on anybody, itself included.
    void expire(int id) {
        ++expirations_;
        require(model_.due(id), "nobody was early, or expired twice");
        model_.cancel(id);
        check(id);
        if (below(2) == 0) schedule(id);
        if (below(8) == 0) renew(id);
        for (std::uint32_t acts = below(4); acts > 0; --acts) act(any_stay());
    }

    void check(int id) {
        require(stays_[id]->scheduled() == model_.scheduled(id), "scheduled as in the model");
        if (model_.scheduled(id))
            require(stays_[id]->deadline() == model_.deadline(id), "deadline as in the model");
    }

    // A doctest assertion for each of the millions of checks would take most of the time.
    static void require(bool holds, const char* expectation) {
        if (!holds) FAIL("not true: ", std::string(expectation));
    }

    std::mt19937 random_;
    StackedWheel wheel_;
    std::array<std::unique_ptr<Stay>, 300> stays_;
    Model model_;
    std::uint64_t expirations_ = 0;
};

}  // namespace

TEST_CASE("over many random operations stacked wheels do what a sorted list does") {
    constexpr int steps = 100'000;
    std::uint64_t expirations = 0;
    constexpr std::uint32_t seeds = sanitized ? 4 : 30;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        Comparison comparison(seed, seed % 2 == 0 ? seed : seed * 31'415);
        for (int step = 0; step < steps && !comparison.over(); ++step) {
            INFO("seed ", seed, ", step ", step);
            comparison.step();
        }
        expirations += comparison.expirations();
    }
    CHECK(expirations > seeds * 10'000);  // or the operations never led anywhere
}
