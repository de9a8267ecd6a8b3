// What it costs to find the subscribers of a topic, and to remember them: our router, and what
// others do instead.
//
//     router-bench [MAX_FILTERS]        1,000,000 unless told otherwise: 800 MB, a minute
//
// Every filter is one session's, and messages go to random topics that somebody subscribed to. All
// contenders take turns, round after round, and the median of the rounds counts.

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/topic.h"
#include "server/routing/router.h"

using namespace pulsegate;

namespace {

constexpr int rounds = 5;
constexpr std::size_t longest_scan = 1'000;  ///< more filters would take too long one by one

// Each contender is one class with two operations: `subscribe(filter, i)`, session i wants it; and
// `match(topic)`, which calls `found` with the QoS for each session that does.

class OurRouter {
public:
    static constexpr const char* name = "router";

    explicit OurRouter(std::vector<std::byte>& sessions)
        : sessions_(sessions), lists_(sessions.size()) {}

    void subscribe(const std::string& filter, std::size_t i) {
        // The router only passes sessions on, so any address will do for one.
        auto& session = reinterpret_cast<Subscriber&>(sessions_[i]);
        router_.subscribe(session, lists_[i], filter, {}, 0);
    }

    template <class Found>
    void match(std::string_view topic, Found found) {
        router_.match(topic, nullptr, [&](const Match& match) { found(match.qos); });
    }

private:
    std::vector<std::byte>& sessions_;
    std::vector<SubscriptionList> lists_;
    Interest interest_;
    Router router_{interest_};
};

/// The textbook's: a tree of levels for all filters, whether they have wildcards or not. It does
/// not even see to it that a session gets one copy only.
class NaiveTree {
public:
    static constexpr const char* name = "tree for all";

    explicit NaiveTree(std::vector<std::byte>& sessions) : sessions_(sessions) {}

    void subscribe(const std::string& filter, std::size_t i) {
        Level* level = &root_;
        TopicLevels levels(filter);
        for (std::string_view part; levels.next(part);) {
            auto& next = level->children[std::string(part)];
            if (!next) next = std::make_unique<Level>();
            level = next.get();
        }
        level->subscribers.push_back({&sessions_[i], {}, 0});
    }

    template <class Found>
    void match(std::string_view topic, Found found) {
        visit(root_, topic, found);
    }

private:
    struct Subscriber {
        std::byte* session;
        SubscribeOptions options;
        std::uint32_t identifier;
    };
    struct Level {
        std::map<std::string, std::unique_ptr<Level>, std::less<>> children;
        std::vector<Subscriber> subscribers;
    };

    template <class Found>
    static void tell(const Level& level, Found& found) {
        for (const Subscriber& subscriber : level.subscribers) found(subscriber.options.qos);
    }

    template <class Found>
    static void visit(const Level& level, std::string_view topic, Found& found) {
        const auto slash = topic.find('/');
        const auto descend = [&](std::string_view part) {
            const auto child = level.children.find(part);
            if (child == level.children.end()) return;
            if (slash != std::string_view::npos)
                return visit(*child->second, topic.substr(slash + 1), found);
            tell(*child->second, found);
            const auto rest = child->second->children.find("#");
            if (rest != child->second->children.end()) tell(*rest->second, found);
        };
        const auto rest = level.children.find("#");
        if (rest != level.children.end()) tell(*rest->second, found);
        descend(topic.substr(0, slash));
        descend("+");
    }

    std::vector<std::byte>& sessions_;
    Level root_;
};

/// Every filter is tried.
class LinearScan {
public:
    static constexpr const char* name = "linear scan";

    explicit LinearScan(std::vector<std::byte>& sessions) : sessions_(sessions) {}

    void subscribe(const std::string& filter, std::size_t i) {
        subscribers_.push_back({filter, {}, &sessions_[i]});
    }

    template <class Found>
    void match(std::string_view topic, Found found) {
        for (const Subscriber& subscriber : subscribers_)
            if (topic_matches(subscriber.filter, topic)) found(subscriber.options.qos);
    }

private:
    struct Subscriber {
        std::string filter;
        SubscribeOptions options;
        std::byte* session;
    };

    std::vector<std::byte>& sessions_;
    std::vector<Subscriber> subscribers_;
};

/// A filter, and a topic that it selects.
struct Pair {
    std::string filter;
    std::string topic;
};

Pair exact(std::size_t i) {
    const auto inbox = fmt::format("inbox/user{}", i);
    return {inbox, inbox};
}

Pair wildcard(std::size_t i) {
    const std::size_t id = i / 4;
    switch (i % 4) {
        case 0: return {fmt::format("room/{}/+", id), fmt::format("room/{}/y", id)};
        case 1: return {fmt::format("+/{}/x", id), fmt::format("room/{}/x", id)};
        case 2: return {fmt::format("a/b/{}/#", id), fmt::format("a/b/{}/c/d", id)};
        default: return {fmt::format("device/{}/+/on", id), fmt::format("device/{}/7/on", id)};
    }
}

/// Nine inboxes to one filter with wildcards.
Pair mixed(std::size_t i) { return i % 10 == 0 ? wildcard(i / 10) : exact(i); }

struct Workload {
    const char* name;
    Pair (*make)(std::size_t i);
};
constexpr Workload workloads[] = {{"exact", exact}, {"wildcards", wildcard}, {"mixed 9:1", mixed}};

/// What one contender needs with one workload.
struct Cost {
    double match = 0;      ///< ns
    double subscribe = 0;  ///< ns
    double memory = 0;     ///< bytes a filter, with what malloc adds to it
};

double memory_in_use() {
    const auto info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

template <class Work>
double nanoseconds(Work work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
        .count();
}

/// One contender with all the filters of a workload.
template <class Contender>
class Filled {
public:
    Filled(const Workload& workload, std::vector<std::byte>& sessions) : contender_(sessions) {
        std::vector<std::string> filters;
        for (std::size_t i = 0; i < sessions.size(); ++i)
            filters.push_back(workload.make(i).filter);
        std::shuffle(filters.begin(), filters.end(), std::mt19937(2));
        const double before = memory_in_use();
        const double spent = nanoseconds([&] {
            for (std::size_t i = 0; i < filters.size(); ++i) contender_.subscribe(filters[i], i);
        });
        const auto count = static_cast<double>(filters.size());
        cost_.subscribe = spent / count;
        cost_.memory = (memory_in_use() - before) / count;
    }

    /// Returns how many were found, each counted with its QoS.
    std::uint64_t measure(const std::vector<std::string>& topics) {
        std::uint64_t count = 0;
        const double spent = nanoseconds([&] {
            for (const auto& topic : topics)
                contender_.match(topic, [&](QoS qos) { count += 1 + static_cast<unsigned>(qos); });
        });
        matches_.push_back(spent / static_cast<double>(topics.size()));
        return count;
    }

    Cost cost() const {
        Cost cost = cost_;
        cost.match = median(matches_);
        return cost;
    }

private:
    Contender contender_;
    Cost cost_;
    std::vector<double> matches_;
};

std::vector<std::string> random_topics(const Workload& workload, std::size_t filters) {
    std::mt19937 random(1);
    std::vector<std::string> topics(filters <= longest_scan ? 20'000 : 200'000);
    for (auto& topic : topics) topic = workload.make(random() % filters).topic;
    return topics;
}

void require_equal(std::uint64_t ours, std::uint64_t theirs, const char* name) {
    if (ours == theirs) return;
    fmt::print(stderr, "{} finds {} subscribers where the router finds {}\n", name, theirs, ours);
    std::exit(1);
}

/// The costs of each contender, in the order of the rows; too long ones are not measured.
std::vector<Cost> measure(const Workload& workload, std::size_t filters) {
    std::vector<std::byte> sessions(filters);
    const auto topics = random_topics(workload, filters);
    Filled<OurRouter> router(workload, sessions);
    Filled<NaiveTree> tree(workload, sessions);
    std::unique_ptr<Filled<LinearScan>> scan;
    if (filters <= longest_scan) scan = std::make_unique<Filled<LinearScan>>(workload, sessions);

    for (int round = 0; round < rounds; ++round) {
        const auto found = router.measure(topics);
        require_equal(found, tree.measure(topics), NaiveTree::name);
        if (scan) require_equal(found, scan->measure(topics), LinearScan::name);
    }
    std::vector<Cost> costs{router.cost(), tree.cost()};
    if (scan) costs.push_back(scan->cost());
    return costs;
}

std::string brief(std::size_t size) {
    return size < 1'000'000 ? fmt::format("{}k", size / 1000)
                            : fmt::format("{}M", size / 1'000'000);
}

/// One row for each workload and contender, one column for each size with its ratio to the router.
void print(const char* title, double Cost::*cost,
           const std::vector<std::vector<std::vector<Cost>>>& costs,
           const std::vector<std::size_t>& sizes) {
    fmt::print("{:<24}", title);
    for (const std::size_t size : sizes) fmt::print("{:>20}", brief(size));
    fmt::print("\n");
    constexpr const char* names[] = {OurRouter::name, NaiveTree::name, LinearScan::name};
    for (std::size_t workload = 0; workload < std::size(workloads); ++workload) {
        for (std::size_t row = 0; row < std::size(names); ++row) {
            fmt::print("  {:<10}{:<12}", row == 0 ? workloads[workload].name : "", names[row]);
            for (std::size_t size = 0; size < sizes.size(); ++size) {
                const auto& column = costs[workload][size];
                if (row < column.size())
                    fmt::print("{:>12.0f} {:>6.1f}x", column[row].*cost,
                               column[row].*cost / (column[0].*cost));
            }
            fmt::print("\n");
        }
    }
    fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t max = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
    std::vector<std::size_t> sizes;
    for (const std::size_t size : {1'000u, 100'000u, 1'000'000u})
        if (size <= max) sizes.push_back(size);

    std::vector<std::vector<std::vector<Cost>>> costs;
    for (const Workload& workload : workloads) {
        costs.emplace_back();
        for (const std::size_t size : sizes) {
            fmt::print(stderr, "measuring {}, {} filters\n", workload.name, brief(size));
            costs.back().push_back(measure(workload, size));
        }
    }
    fmt::print(
        "Ratios are to the router, in the same column. Filters wait for one session each.\n\n");
    print("match, ns", &Cost::match, costs, sizes);
    print("subscribe, ns", &Cost::subscribe, costs, sizes);
    print("memory, bytes a filter", &Cost::memory, costs, sizes);
}
