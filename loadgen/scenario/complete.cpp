#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "loadgen/scenario/draft.h"

namespace pulsegate::load {

namespace {

/// The place of the setting; if the group does not set it, the names of the group and the key.
std::string blame(const GroupDraft& draft, const char* key) {
    const auto found = draft.where.find(key);
    return found != draft.where.end() ? found->second
                                      : fmt::format("group '{}': '{}'", draft.group.name, key);
}

constexpr double most_clients = 10'000'000;

std::uint32_t times(std::uint64_t count, double scale) {
    const double product = static_cast<double>(count) * scale;
    if (product > most_clients)
        throw std::runtime_error(fmt::format(
            "{} times {:.4g} is more than 10,000,000; lower 'clients' or --scale", count, scale));
    return static_cast<std::uint32_t>(std::llround(product));
}

bool writes(const GroupDraft& draft) {
    return draft.group.to_what != Group::To::nobody && draft.group.hostile == Hostile::none;
}

/// Makes a draft complete, step by step. Each step needs the steps before it.
class Completion {
public:
    Completion(ScenarioDraft& draft, double scale) : draft_(draft), scale_(scale) {}

    Scenario run() {
        if (draft_.groups.empty()) add_only_group();
        for (GroupDraft& group : draft_.groups) take_defaults(group);
        divide_clients();
        scale_rates();
        separate_storms();
        resolve_names();
        divide_ramp();
        divide_network_changes();
        divide_messages();
        settle_hostiles();
        check();
        return finished();
    }

private:
    void add_only_group() {
        draft_.groups.push_back(draft_.defaults);
        draft_.groups.back().group.name = "clients";
        // The settings of the whole scenario are those of its only group.
        draft_.groups.back().where = draft_.where;
    }

    void take_defaults(GroupDraft& draft) {
        Group& group = draft.group;
        if (group.hostile != Hostile::none) forget_manners(draft);
        group.silent_over = draft.silent_over.value_or(Duration(group.keepalive) / 2);
        if (group.storm_after == Duration::zero()) group.storm_after = std::chrono::seconds(10);
    }

    // The settings of the whole scenario are meant for well-behaved clients, so hostile groups do
    // not take them.
    static void forget_manners(GroupDraft& draft) {
        draft.group.to_what = Group::To::nobody;
        draft.group.silent = 0;
        draft.group.online = draft.group.away = {};
        draft.group.watches = 0;
        draft.messages = 0;
        draft.network_changes = 0;
        draft.storm = {};
    }

    // -- clients --

    void divide_clients() {
        total_ = times(draft_.clients, scale_);
        std::uint64_t given = 0;
        double shares = 0;
        std::vector<GroupDraft*> open;
        fit_counts();
        for (GroupDraft& draft : draft_.groups) {
            if (!draft.clients) {
                open.push_back(&draft);
                continue;
            }
            draft.group.clients = static_cast<std::uint32_t>(draft.clients->of(total_));
            // Hostile clients come in addition: they do not reduce the number of other clients.
            if (draft.group.hostile != Hostile::none) continue;
            given += draft.group.clients;
            shares += draft.clients->fraction;
            if (given > total_)
                throw std::runtime_error(fmt::format(
                    "{}: the groups have {} clients, and the scenario {}; raise its 'clients' or "
                    "lower this one",
                    blame(draft, "clients"), given, total_));
        }
        give_rest(total_ - given, shares, open);
    }

    // --clients and --scale also change groups with a given number of clients.
    void fit_counts() {
        const auto written =
            static_cast<double>(std::max<std::uint64_t>(1, draft_.clients_written));
        for (GroupDraft& draft : draft_.groups) {
            if (!draft.clients) continue;
            const double factor = draft.clients_overridden ? scale_ : total_ / written;
            draft.clients->count = times(draft.clients->count, factor);
        }
    }

    GroupDraft& largest() {
        return *std::ranges::max_element(draft_.groups, {}, [](const GroupDraft& draft) {
            return draft.group.hostile == Hostile::none ? draft.group.clients : 0;
        });
    }

    void give_rest(std::uint64_t rest, double shares, const std::vector<GroupDraft*>& open) {
        if (open.empty()) {
            // Shares of the total were rounded down, so the largest group gets the rest.
            if (shares > 0.9999) largest().group.clients += static_cast<std::uint32_t>(rest);
            return;
        }
        for (std::size_t at = 0; at < open.size(); ++at) {
            const auto part = rest / (open.size() - at);
            open[at]->group.clients = static_cast<std::uint32_t>(part);
            rest -= part;
        }
    }

    // -- rates --

    void scale_rates() {
        draft_.packets *= scale_;
        const auto scale = [&](std::optional<double>& rate) {
            if (rate) rate = *rate * scale_;
        };
        const auto scale_draft = [&](GroupDraft& draft) {
            scale(draft.ramp);
            scale(draft.network_changes);
            if (draft.messages) scale(*draft.messages);
        };
        scale_draft(draft_.defaults);
        for (GroupDraft& draft : draft_.groups) {
            scale_draft(draft);
            if (draft.group.rooms > 0)
                draft.group.rooms = std::max(1u, times(draft.group.rooms, scale_));
            draft.storm.count = times(draft.storm.count, scale_);
        }
    }

    // -- storms --

    // Clients of a storm form a group of their own, because they neither write nor go silent.
    void separate_storms() {
        std::vector<GroupDraft> separated;
        for (GroupDraft& draft : draft_.groups) {
            const auto storm = draft.storm.of(draft.group.clients);
            if (storm > draft.group.clients)
                throw std::runtime_error(
                    fmt::format("{}: the group has {} clients; raise 'clients' or lower 'storm'",
                                blame(draft, "storm"), draft.group.clients));
            GroupDraft stormy = draft;
            draft.group.clients -= static_cast<std::uint32_t>(storm);
            if (draft.group.clients > 0 || storm == 0) separated.push_back(draft);
            if (storm == 0) continue;
            if (draft.group.clients > 0) stormy.group.name += "-storm";
            stormy.group.clients = static_cast<std::uint32_t>(storm);
            stormy.group.storm = true;
            stormy.group.silent = 0;
            stormy.group.to_what = Group::To::nobody;
            stormy.messages = 0;
            separated.push_back(std::move(stormy));
        }
        draft_.groups = std::move(separated);
    }

    // -- names --

    void resolve_names() {
        for (std::size_t at = 0; at < draft_.groups.size(); ++at) {
            GroupDraft& draft = draft_.groups[at];
            draft.group.to = named(draft, draft.to, "to", at);
            draft.group.watched = named(draft, draft.watched, "watched", at);
        }
    }

    std::uint32_t named(const GroupDraft& draft, const std::string& name, const char* key,
                        std::size_t own) const {
        if (name.empty()) return static_cast<std::uint32_t>(own);
        for (std::size_t at = 0; at < draft_.groups.size(); ++at)
            if (draft_.groups[at].group.name == name) return static_cast<std::uint32_t>(at);
        throw std::runtime_error(
            fmt::format("{}: there is no group '{}'; name one that has a "
                        "heading such as [group {}]",
                        blame(draft, key), name, name));
    }

    // -- what the groups share --

    template <class Takes>
    double clients_of(Takes takes) const {
        double sum = 0;
        for (const GroupDraft& draft : draft_.groups)
            if (takes(draft)) sum += draft.group.clients;
        return std::max(sum, 1.0);
    }

    // A group that starts later has the whole rate, because no other clients arrive meanwhile.
    void divide_ramp() {
        const double rate = draft_.defaults.ramp.value_or(2000 * scale_);
        const auto shares = [](const GroupDraft& draft) {
            return !draft.ramp && draft.group.starts == Duration::zero();
        };
        const double sharing = clients_of(shares);
        for (GroupDraft& draft : draft_.groups)
            draft.group.ramp = draft.ramp ? *draft.ramp
                               : shares(draft)
                                   ? std::max(rate * draft.group.clients / sharing, 0.001)
                                   : rate;
    }

    void divide_network_changes() {
        const auto shares = [](const GroupDraft& draft) {
            return !draft.network_changes && draft.group.hostile == Hostile::none;
        };
        const double rate = draft_.defaults.network_changes.value_or(0);
        const double sharing = clients_of(shares);
        for (GroupDraft& draft : draft_.groups)
            draft.group.network_changes = draft.network_changes ? *draft.network_changes
                                          : shares(draft) ? rate * draft.group.clients / sharing
                                                          : 0;
    }

    void divide_messages() {
        const auto common = draft_.defaults.messages.value_or(GroupDraft::Messages(0));
        const auto shares = [](const GroupDraft& draft) {
            return !draft.messages && writes(draft);
        };
        const double sharing = clients_of(shares);
        for (GroupDraft& draft : draft_.groups) {
            if (shares(draft)) {
                draft.messages = common;
                if (common) draft.messages = *common * draft.group.clients / sharing;
            }
            draft.group.messages = draft.messages ? draft.messages->value_or(0) : 0;
        }
        fill_messages();
    }

    void fill_messages() {
        const auto fills = [](const GroupDraft& draft) {
            return draft.messages && !*draft.messages && writes(draft);
        };
        const Scenario scenario = finished();
        const double left = std::max(0.0, draft_.packets - scenario.packets());
        const double filling = clients_of(fills);
        for (GroupDraft& draft : draft_.groups) {
            if (!fills(draft)) continue;
            const double part = left * draft.group.clients / filling;
            draft.group.messages = std::floor(part / scenario.packets_per_message(draft.group));
            if (talkers(draft.group) < 2) draft.group.messages = 0;
        }
    }

    static double talkers(const Group& group) { return group.clients * (1 - group.silent); }

    // -- hostile clients --

    // Hostile clients come later, so that there is a time without them for comparison. A run
    // without hostile clients needs no such time.
    void settle_hostiles() {
        const bool any = std::ranges::any_of(draft_.groups, [](const GroupDraft& draft) {
            return draft.group.hostile != Hostile::none && draft.group.clients > 0;
        });
        Scenario& scenario = draft_.scenario;
        const Duration usual = std::min<Duration>(std::chrono::seconds(10), scenario.duration / 3);
        scenario.hostile_after = any ? draft_.hostile_after.value_or(usual) : Duration::zero();
    }

    // -- what can't be --

    void check() const {
        for (const GroupDraft& draft : draft_.groups) {
            check_messages(draft);
            check_watching(draft);
            check_naps(draft);
        }
        if (clients_of([](const GroupDraft&) { return true; }) > most_clients)
            throw std::runtime_error(
                "the scenario has more than 10,000,000 clients; lower 'clients' or --hostile");
        if (total_ == 0 || finished().clients() == 0)
            throw std::runtime_error("the scenario has no clients; raise 'clients'");
    }

    void check_messages(const GroupDraft& draft) const {
        const Group& group = draft.group;
        if (group.messages == 0) return;
        const GroupDraft& receivers = draft_.groups[group.to];
        if (!writes(draft))
            throw std::runtime_error(
                fmt::format("{}: the group writes to nobody; set 'to', or 'messages' to 0",
                            blame(draft, "messages")));
        if (group.to_what == Group::To::rooms && receivers.group.rooms == 0)
            throw std::runtime_error(
                fmt::format("{}: group '{}' has no rooms; give it some, such as "
                            "rooms = 10",
                            blame(draft, "to"), receivers.group.name));
        const double needed = group.to == index_of(draft) ? 2 : 1;
        if (talkers(group) >= 1 && talkers(receivers.group) >= needed) return;
        throw std::runtime_error(fmt::format(
            "{}: messages need two talking clients, and group '{}' has {}; raise 'clients', or "
            "lower 'silent' or 'storm'",
            blame(draft, "messages"), receivers.group.name,
            static_cast<std::uint64_t>(talkers(receivers.group))));
    }

    void check_watching(const GroupDraft& draft) const {
        if (draft.group.watches == 0 || draft_.groups[draft.group.watched].group.clients > 0)
            return;
        throw std::runtime_error(fmt::format("{}: group '{}' has no clients to watch",
                                             blame(draft, "watches"),
                                             draft_.groups[draft.group.watched].group.name));
    }

    void check_naps(const GroupDraft& draft) const {
        const bool naps = draft.group.online.most > Duration::zero();
        const bool away = draft.group.away.most > Duration::zero();
        if (naps == away) return;
        throw std::runtime_error(fmt::format(
            "{}: naps need both 'online' and 'away', such as online = 30s..2m and away = 5s..1m",
            blame(draft, naps ? "online" : "away")));
    }

    std::size_t index_of(const GroupDraft& draft) const {
        return static_cast<std::size_t>(&draft - draft_.groups.data());
    }

    Scenario finished() const {
        Scenario scenario = draft_.scenario;
        for (const GroupDraft& draft : draft_.groups) scenario.groups.push_back(draft.group);
        return scenario;
    }

    ScenarioDraft& draft_;
    const double scale_;
    std::uint32_t total_ = 0;
};

}  // namespace

Scenario complete(ScenarioDraft draft, double scale) { return Completion(draft, scale).run(); }

}  // namespace pulsegate::load
