#include "loadgen/swarm/truth_frames.h"

#include <algorithm>
#include <utility>

#include "loadgen/swarm/chat.h"
#include "loadgen/swarm/deliveries.h"
#include "loadgen/swarm/swarm_state.h"
#include "loadgen/swarm/watchers.h"
#include "loadgen/truth/wire.h"

namespace pulsegate::load {

namespace {

enum class Content : std::uint8_t { flows = 1, liveness = 2 };

constexpr std::size_t full_size = 1 << 20;
constexpr std::size_t head_size = 4 + 1;

/// Gathers what is for each worker.
class Packer {
public:
    Packer(std::uint32_t workers, Content content) : content_(content), open_(workers) {}

    template <class Item>
    void pack(std::uint32_t worker, const Item& item) {
        Buffer& body = open_[worker];
        if (body.empty()) {
            put(worker, body);
            put(static_cast<std::uint8_t>(content_), body);
        }
        put(item, body);
        if (body.size() >= full_size) full_.push_back({worker, std::exchange(body, {})});
    }

    void append_to(std::vector<TruthFrame>& frames) {
        for (std::uint32_t worker = 0; worker < open_.size(); ++worker)
            if (!open_[worker].empty()) full_.push_back({worker, std::move(open_[worker])});
        std::ranges::move(full_, std::back_inserter(frames));
    }

private:
    Content content_;
    std::vector<Buffer> open_;  ///< by worker
    std::vector<TruthFrame> full_;
};

}  // namespace

std::vector<TruthFrame> truth_frames(const SwarmState& state, const Chat& chat,
                                     const Watchers& watchers) {
    const std::uint32_t workers = state.assignment.workers;
    Packer flows(workers, Content::flows);
    chat.for_each_total([&](const Roster::Contact& contact, const FlowTotal& total) {
        if (!contact.is_room) return flows.pack(contact.number % workers, total);
        for (std::uint32_t worker = 0; worker < workers; ++worker) flows.pack(worker, total);
    });
    Packer liveness(workers, Content::liveness);
    watchers.for_each_fact(
        [&](std::uint32_t worker, const Liveness& fact) { liveness.pack(worker, fact); });

    std::vector<TruthFrame> frames;
    flows.append_to(frames);
    liveness.append_to(frames);
    return frames;
}

bool read_truth_frame(std::span<const std::uint8_t> body, const SwarmState& state,
                      Deliveries& deliveries, Watchers& watchers) {
    if (body.size() < head_size || take<std::uint32_t>(body) != state.assignment.worker)
        return false;
    const auto content = static_cast<Content>(take<std::uint8_t>(body));
    while (!body.empty()) {
        if (content == Content::flows) {
            auto total = take_flow_total(body);
            if (!total || total->sender >= state.roster.clients()) return false;
            deliveries.add(std::move(*total));
        } else if (content == Content::liveness) {
            const auto fact = take_liveness(body);
            if (!fact || fact->client >= state.roster.clients()) return false;
            watchers.learn(*fact);
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace pulsegate::load
