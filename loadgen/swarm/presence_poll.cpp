#include "loadgen/swarm/presence_poll.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace pulsegate::load {

namespace {

constexpr std::size_t users_per_question = 100;

/// If this many requests fail before the first answer, the server has no such API.
constexpr unsigned most_first_troubles = 3;

std::string token_in(const std::string& file) {
    std::string token;
    if (file.empty()) return token;
    if (!(std::ifstream(file) >> token))
        throw std::runtime_error(fmt::format("--http-token-file '{}': no token can be read", file));
    return token;
}

}  // namespace

PresencePoll::PresencePoll(SwarmState& state, const Profiles& profiles)
    : state_(state), profiles_(profiles) {
    const Target& target = state.assignment.target;
    if (target.http.empty()) return;
    choose_clients();
    if (clients_.empty()) return;
    query_ = std::make_unique<PresenceQuery>(target.http, token_in(target.http_token_file));
}

// If there are several servers, the API belongs to the first one.
void PresencePoll::choose_clients() {
    const Roster& roster = state_.roster;
    std::vector<bool> shared(roster.clients());
    for (std::uint32_t number = 0; number < roster.clients(); ++number)
        if (const auto user = profiles_.user_of(number); user != number)
            shared[user] = shared[number] = true;
    for (SwarmClient& client : state_.clients) {
        const auto number = client.number();
        const bool hostile = roster.group(number).hostile != Hostile::none;
        if (!hostile && !shared[number] && roster.same_server(number, 0))
            clients_.push_back({&client});
    }
    state_.shuffle(clients_);
}

void PresencePoll::turn(Time now) {
    if (!query_) return;
    if (const auto answer = query_->take()) {
        take(*answer, now);
        under_way_.clear();
    }
    const bool asks = query_ && state_.phase() == SwarmState::Phase::measuring;
    if (!asks || !under_way_.empty() || now < next_) return;
    next_ = now + from_seconds(state_.assignment.workers / state_.assignment.target.http_rate);
    ask();
}

void PresencePoll::ask() {
    std::vector<std::string> names;
    for (std::size_t step = 0; step < std::min(users_per_question, clients_.size()); ++step) {
        const std::size_t place = std::exchange(next_client_, (next_client_ + 1) % clients_.size());
        names.push_back(profiles_.presence_name(clients_[place].client->number()));
        under_way_.emplace(names.back(), place);
    }
    query_->ask(names);
}

// An answer has each requested user once. An answer with more users is not judged.
void PresencePoll::take(const PresenceQuery::Answer& answer, Time now) {
    if (!answer.trouble.empty()) return unanswered(answer.trouble, now);
    answered_ = true;
    if (answer.users.size() > under_way_.size())
        return unanswered("it tells of more users than were asked for", now);
    for (const auto& user : answer.users) {
        const auto asked = under_way_.extract(user.user);
        if (asked) judge(clients_[asked.mapped()], user, answer.asked, now);
    }
    if (!under_way_.empty()) unanswered("it does not tell of all users", now);
}

/// The requests for all users in `under_way_` failed.
void PresencePoll::unanswered(const std::string& trouble, Time now) {
    if (answered_) {
        state_.at(now).add(Count::presence_unanswered, under_way_.size());
        return state_.give_example("a question for presence by HTTP failed: " + trouble);
    }
    if (++first_troubles_ < most_first_troubles) return;
    state_.note("presence can't be asked for by HTTP: " + trouble);
    query_.reset();
}

void PresencePoll::judge(Asked& asked, const UserPresence& told, Time since, Time now) {
    const SwarmClient& client = *asked.client;
    state_.at(now).add(Count::presence_asked);
    if (told.version > 0 && told.version < asked.version)
        fault(Count::presence_http_out_of_order, client, "in an older version than before", now);
    asked.version = std::max(asked.version, told.version);
    if (!told.online && alive_since(client, since, now))
        fault(Count::presence_http_false_offline, client, "as offline, and was alive", now);
    if (told.online && dead_since(client, since))
        fault(Count::presence_http_ghosts, client, "as online, and was gone beyond its limit", now);
}

// The client is alive now, and has been alive since well before the question: a login may be shown
// a little late. While the login was incomplete, the server may have seen only the end of an older
// connection.
bool PresencePoll::alive_since(const SwarmClient& client, Time since, Time now) const {
    const Duration slack = state_.closes.tick + state_.closes.tolerance;
    const Time begin = std::max(client.alive_changed, client.online_since);
    return client.online() && client.alive_for_watchers && begin + slack < since &&
           !state_.starved(client, now) && !profiles_.token_expired(client.number(), now);
}

// A client that tries to come back is not judged, because the server may know more about it than we
// do.
bool PresencePoll::dead_since(const SwarmClient& client, Time since) const {
    using State = SwarmClient::State;
    const bool stays_away = client.state == State::napping || client.state == State::silent ||
                            client.state == State::gone;
    const Duration limit = state_.limit_of(client);
    const Duration slack = state_.closes.tick + state_.closes.tolerance;
    return stays_away && !client.alive_for_watchers && client.alive_changed != Time() &&
           limit > Duration::zero() && client.alive_changed + limit + slack < since;
}

void PresencePoll::fault(Count count, const SwarmClient& client, const char* what, Time now) {
    state_.at(now).add(count);
    state_.give_example(fmt::format("{} was told by HTTP {}", who(client), what));
}

}  // namespace pulsegate::load
