#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sanitized.h"
#include "wheel/wheel.h"

// The wheel against a model, over many random operations.

using namespace pulsegate;

namespace {

// The longest silence MQTT can ask for: one and a half keepalives of 65,535 s, rounded up.
constexpr Tick longest_timeout = 98'303;

struct Client : Wheel::Node {
    explicit Client(int number) : id(number) {}
    int id;
};

Client& client(Wheel::Node& node) { return static_cast<Client&>(node); }

/// The same thing without slots or laps: all deadlines, sorted.
class Model {
public:
    explicit Model(Tick now, std::size_t clients) : now_(now), deadlines_(clients, none) {}

    void schedule(int id, Tick deadline) {
        cancel(id);
        deadlines_[id] = deadline > now_ ? deadline : now_ + 1;
        sorted_.emplace(deadlines_[id], id);
        ++counts_[deadlines_[id] % Wheel::slots];
    }

    void cancel(int id) {
        if (!scheduled(id)) return;
        sorted_.erase({deadlines_[id], id});
        --counts_[deadlines_[id] % Wheel::slots];
        deadlines_[id] = none;
    }

    void advance(Tick now) { now_ = now; }

    Tick now() const { return now_; }
    bool scheduled(int id) const { return deadlines_[id] != none; }
    Tick deadline(int id) const { return deadlines_[id]; }
    bool due(int id) const { return scheduled(id) && deadlines_[id] <= now_; }
    bool any_due() const { return !sorted_.empty() && sorted_.begin()->first <= now_; }
    std::size_t size() const { return sorted_.size(); }
    std::uint32_t count(Tick slot) const { return counts_[slot]; }

private:
    static constexpr Tick none = ~Tick{0};

    Tick now_;
    std::vector<Tick> deadlines_;  // by client
    std::set<std::pair<Tick, int>> sorted_;
    std::array<std::uint32_t, Wheel::slots> counts_{};
};

/// Does the same to a wheel and to the model, and stops at the first difference.
class Comparison {
public:
    explicit Comparison(std::uint32_t seed, Tick phase)
        : random_(seed), wheel_(phase), model_(phase, clients_.size()) {
        for (int id = 0; id < static_cast<int>(clients_.size()); ++id) renew(id);
    }

    void step() {
        if (chance(8)) {
            advance(any_jump());
        } else {
            act(any_client());
        }
    }

    std::uint64_t expirations() const { return expirations_; }

private:
    std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
    bool chance(std::uint32_t one_in) { return below(one_in) == 0; }
    int any_client() { return static_cast<int>(below(clients_.size())); }

    /// Mostly what is known to break wheels: exact multiples of the span, and their neighbours.
    Tick any_timeout() {
        switch (below(8)) {
            case 0: return 1 + below(longest_timeout);
            case 1: return Wheel::slots * (1 + below(longest_timeout / Wheel::slots));
            case 2: return Wheel::slots * (1 + below(4)) + 1;
            case 3: return Wheel::slots * (1 + below(4)) - 1;
            case 4: return 1 + below(2 * Wheel::slots);
            default: return Wheel::slots * (1 + below(4));
        }
    }

    Tick any_deadline() {
        if (chance(32)) return model_.now() - std::min(model_.now(), below(100));  // in the past
        return model_.now() + any_timeout();
    }

    Tick any_jump() {
        switch (below(16)) {
            case 0: return 0;
            case 1: return Wheel::slots;
            case 2: return Wheel::slots * below(5);
            case 3: return Wheel::slots * below(5) + below(Wheel::slots);
            case 4: return chance(64) ? below(longest_timeout) : 2;
            case 5:
            case 6:
            case 7: return 2 + below(4);
            default: return 1;
        }
    }

    void act(int id) {
        switch (below(8)) {
            case 0:
                wheel_.cancel(*clients_[id]);
                model_.cancel(id);
                break;
            case 1: renew(id); break;
            default: schedule(id);
        }
        check_client(id);
    }

    void schedule(int id) {
        const Tick deadline = any_deadline();
        wheel_.schedule(*clients_[id], deadline);
        model_.schedule(id, deadline);
    }

    void renew(int id) {
        clients_[id] = std::make_unique<Client>(id);
        model_.cancel(id);
    }

    void advance(Tick jump) {
        const Tick now = model_.now() + jump;
        model_.advance(now);
        wheel_.advance(now, [this](Wheel::Node& node) { expire(client(node).id); });
        require(!model_.any_due(), "nobody was missed");
        check_counts();
    }

    /// Callbacks do what connections do, and worse: up to three acts on anybody, itself included.
    void expire(int id) {
        ++expirations_;
        require(model_.due(id), "nobody was early, or expired twice");
        model_.cancel(id);
        check_client(id);
        if (chance(2)) schedule(id);
        if (chance(8)) renew(id);
        for (std::uint32_t acts = below(4); acts > 0; --acts) act(any_client());
    }

    void check_client(int id) {
        require(clients_[id]->scheduled() == model_.scheduled(id), "scheduled as in the model");
        if (model_.scheduled(id)) {
            require(clients_[id]->deadline() == model_.deadline(id), "deadline as in the model");
        }
        require(wheel_.size() == model_.size(), "size as in the model");
    }

    void check_counts() {
        for (Tick slot = 0; slot < Wheel::slots; ++slot) {
            require(wheel_.count(slot) == model_.count(slot), "count as in the model");
        }
    }

    // A doctest assertion for each of the millions of checks would take most of the time.
    static void require(bool holds, const char* expectation) {
        if (!holds) FAIL("not true: ", std::string(expectation));
    }

    std::mt19937 random_;
    Wheel wheel_;
    std::array<std::unique_ptr<Client>, 300> clients_;
    Model model_;
    std::uint64_t expirations_ = 0;
};

}  // namespace

TEST_CASE("over many random operations the wheel does what a sorted list does") {
    constexpr std::uint32_t seed = 20'240'229;
    constexpr int steps = sanitized ? 20'000 : 100'000;
    std::uint64_t expirations = 0;
    for (Tick phase = 0; phase < Wheel::slots; ++phase) {
        Comparison comparison(seed + phase, phase);
        for (int step = 0; step < steps; ++step) {
            INFO("seed ", seed, ", phase ", phase, ", step ", step);
            comparison.step();
        }
        expirations += comparison.expirations();
    }
    CHECK(expirations > Wheel::slots * steps / 3);  // or the operations never led anywhere
}
