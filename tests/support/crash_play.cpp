#include "tests/support/crash_play.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>
#include <utility>

#include "server/session/terms/homes.h"
#include "tests/support/session_model.h"

namespace pulsegate {

namespace {

constexpr Millis first_moment = 1'000'500;
constexpr unsigned most_on_their_way = 5;

BrokerSettings broker_settings(bool packs) {
    BrokerSettings settings;
    if (packs) settings.packed_after = 0;
    settings.recipients_a_turn = 2;
    settings.queue_memory = 1000;  // some of what waits is left to the store
    return settings;
}

SqliteLedger::Options options(const std::string& folder, const FaultyDisk& disk, bool impatient) {
    using namespace std::chrono_literals;
    return {.folder = folder,
            .patience = impatient ? 0ms : 500ms,
            .first_pause = 0ms,
            .stop_patience = 0ms,    // what still waits at an end, waits for a disk that is dead
            .wal_bytes = 24 * 4096,  // so that there are checkpoints, too
            .vfs = disk.vfs()};
}

}  // namespace

CrashPlay::CrashPlay(const Scene& scene, std::string folder, const FaultyDisk& beginning)
    : scene_(scene),
      folder_(std::move(folder)),
      disk_(scene.seed),
      random_(scene.seed),
      chance_(*this, random_, scene.steps, scene.has_guests),
      random_faults_(scene.seed),
      now_(first_moment) {
    disk_.copy(beginning);
    for (const DurableClient::Terms& terms : crash_people())
        clients_.emplace_back(terms, model_, [this](std::string what) { log(std::move(what)); });
}

CrashPlay::~CrashPlay() {
    cluster_.reset();  // refers to links
}

void CrashPlay::fail_at(std::uint64_t step, FaultyDisk::Fault fault, std::uint32_t seed) {
    random_faults_.seed(seed);
    impatient_ = random_faults_() % 2 == 0;
    fails_again_ = random_faults_() % 2 == 0;
    loses_power_ = random_faults_() % 2 == 0;
    disk_.fail_at(step, fault, 1 + static_cast<unsigned>(random_faults_() % 5));
}

void CrashPlay::run() {
    start();
    const int steps = scene_.script.empty() ? scene_.steps : static_cast<int>(scene_.script.size());
    for (step_ = 0; step_ < steps; ++step_)
        guarded([&] {
            if (scene_.script.empty())
                chance_.step(step_);
            else
                scene_.script[static_cast<std::size_t>(step_)](*this);
            const bool upgrades =
                scene_.upgrade_after > 0 && (step_ + 1) % scene_.upgrade_after == 0;
            if (upgrades) fail_to_upgrade();
            if (upgrades) upgrade(1 + static_cast<unsigned>(step_) % 3);
            if (disk_.dead()) throw DiskIsDead();
        });
    if (loses_power_) {
        disk_.cut_power();
        crash();
    }
    end();
}

std::string CrashPlay::journal() const {
    std::string text;
    for (const auto& line : journal_) text += line + '\n';
    return text;
}

void CrashPlay::log(std::string what) {
    journal_.push_back(fmt::format("{:3} {:7} {:5} ", step_, now_, disk_.steps()) + what);
    if (journal_.size() > 150) journal_.pop_front();
}

// -- crashes --

template <class Act>
void CrashPlay::guarded(Act act) {
    try {
        act();
    } catch (const DiskIsDead&) {
        crash();
    }
}

void CrashPlay::crash() {
    log("crash");
    begin_anew();
}

void CrashPlay::stop() {
    log("stop");
    cluster_->stop();
    ledger_->commit(true);
    if (!store_refuses())
        for (DurableClient& client : clients_) client.stop();
    begin_anew();
}

void CrashPlay::begin_anew() {
    for (DurableClient& client : clients_) client.crash();
    model_.crash();
    if (ledger_) committed_ = std::max(committed_, ledger_->committed());
    if (cluster_)
        for (const PresenceChange& change : cluster_->recorded)
            told_[change.user] = {change.version, change.online};
    cluster_.reset();
    ledger_.reset();
    for (DurableClient& client : clients_) client.forget_links();
    restart_disk();
    start();
}

void CrashPlay::restart_disk() {
    disk_.restart();
    if (!std::exchange(fails_again_, false)) return;
    constexpr FaultyDisk::Fault faults[] = {FaultyDisk::Fault::kill, FaultyDisk::Fault::torn_write,
                                            FaultyDisk::Fault::sync_error,
                                            FaultyDisk::Fault::power_cut};
    disk_.fail_at(disk_.steps() + 1 + random_faults_() % 80, faults[random_faults_() % 4]);
}

void CrashPlay::start() {
    for (int attempts = 0; !cluster_; ++attempts) {
        if (attempts == 5) throw Broken("it does not start any more");
        if (attempts > 0) restart_disk();
        try {
            open();
        } catch (const std::runtime_error& error) {
            log(fmt::format("it does not start: {}", error.what()));
            cluster_.reset();
            ledger_.reset();
        }
    }
    started_ = now_;
    check_start();
}

void CrashPlay::open() {
    ledger_ = std::make_unique<PumpedLedger>(options(folder_, disk_, impatient_), disk_);
    cluster_ = std::make_unique<BrokerCluster>(broker_settings(scene_.packs), scene_.shards,
                                               ledger_.get(), now_);
    ledger_->end_start();
    for (const DurableClient& client : clients_) {
        const auto& user = client.terms().user;
        Broker& home = cluster_->broker(Homes(scene_.shards).shard_of(user));
        static_cast<void>(home.admin().rooms().add(DeliveryModel::room, user));
    }
    adopt();
    deliver_all();  // before anybody can connect
}

void CrashPlay::check_start() {
    if (cluster_->start().floor < committed_) throw Broken("stamps go back");
    for (const auto& [user, before] : versions_) {
        const Broker& home = cluster_->broker(Homes(scene_.shards).shard_of(user));
        const User* known = home.admin().presence().find(user);
        if (!known) throw Broken(fmt::format("nobody knows {} any more", user));
        const bool has_changed = before.online && !known->online();
        if (known->version < before.number + (has_changed ? 1 : 0))
            throw Broken(fmt::format("the presence of {} goes back", user));
    }
    for (const auto& [user, before] : told_) {
        const User* known =
            cluster_->broker(Homes(scene_.shards).shard_of(user)).admin().presence().find(user);
        const bool has_changed = before.online && known && !known->online();
        if (known && known->is_known() && known->version < before.number + (has_changed ? 1 : 0))
            throw Broken(fmt::format("the presence of {} goes back behind what was told", user));
    }
}

void CrashPlay::note_versions() {
    std::set<std::string> users;
    for (const DurableClient& client : clients_) users.insert(client.terms().user);
    for (const std::string& user : users) {
        const Broker& home = cluster_->broker(Homes(scene_.shards).shard_of(user));
        const User* known = home.admin().presence().find(user);
        if (known && known->is_known()) versions_[user] = {known->version, known->online()};
    }
}

// -- turns and time --

void CrashPlay::finish_turn() {
    for (bool quiet = false; !quiet;) {
        quiet = true;
        cluster_->end_turn();
        for (DurableClient& client : clients_)
            if (client.read()) quiet = false;
    }
}

void CrashPlay::pass(Millis time) {
    log(fmt::format("{} ms pass", time));
    const Millis end = now_ + time;
    while (now_ < end) {
        now_ = std::min(end, now_ - now_ % 1000 + 1000);
        cluster_->now = now_;
        cluster_->store_overdue();
        if (now_ % 1000 == 0) tick();
        finish_turn();
    }
    if (now_ < started_ + DurableClient::limit + 1000) return;
    for (DurableClient& client : clients_) client.stay_away();
}

void CrashPlay::tick() {
    for (unsigned shard = 0; shard < scene_.shards; ++shard)
        while (cluster_->broker(shard).tick(now_)) {
        }
}

void CrashPlay::deliver_one() {
    const auto pairs = cluster_->pairs_with_messages();
    if (pairs.empty()) return;
    static_cast<void>(cluster_->deliver(pairs[below(pairs.size())]));
    finish_turn();
}

void CrashPlay::deliver_all() {
    while (cluster_->has_messages()) deliver_one();
}

void CrashPlay::commit() {
    log("commit");
    ledger_->commit(false);
}

bool CrashPlay::store_refuses() {
    for (unsigned shard = 0; shard < scene_.shards; ++shard)
        if (cluster_->broker(shard).admin().journal().is_refused()) return true;
    return false;
}

void CrashPlay::settle(bool lazy_too) {
    do {
        deliver_all();
        ledger_->commit(std::exchange(lazy_too, false));
    } while (cluster_->has_messages());
    if (store_refuses()) return log("the store refuses");
    log("all is settled");
    model_.settle();
    if (ledger_->is_idle()) model_.settle_all();
    for (DurableClient& client : clients_) client.settle();
}

// -- what clients do --

void CrashPlay::connect(Who who, bool clean, bool with_will) {
    DurableClient& it = client(who);
    const auto& terms = it.terms();
    clean |= !terms.keeps_session;
    std::optional<DeliveryModel::Number> will;
    if (with_will)
        will = model_.publish({.topic = "t/1",
                               .qos = QoS::at_least_once,
                               .publisher = terms.name,
                               .kind = DeliveryModel::Kind::will});
    log(fmt::format("{} connects{}{}", terms.name, clean ? ", clean" : "",
                    will ? fmt::format(", with the will {}", *will) : ""));
    it.connect(*cluster_, clean, will);
    finish_turn();
}

void CrashPlay::disconnect(Who who) {
    if (!is_here(who)) return;
    log(fmt::format("{} disconnects", client(who).terms().name));
    client(who).disconnect();
    finish_turn();
}

void CrashPlay::lose(Who who) {
    if (!is_here(who)) return;
    log(fmt::format("{} loses its connection", client(who).terms().name));
    client(who).lose_connection();
    finish_turn();
}

void CrashPlay::subscribe(Who who, const std::string& filter, QoS qos) {
    if (!is_here(who)) return;
    log(fmt::format("{} subscribes to {}", client(who).terms().name, filter));
    client(who).subscribe(filter, qos);
    finish_turn();
}

void CrashPlay::unsubscribe(Who who, const std::string& filter) {
    if (!is_here(who)) return;
    log(fmt::format("{} unsubscribes from {}", client(who).terms().name, filter));
    client(who).unsubscribe(filter);
    finish_turn();
}

void CrashPlay::publish(Who who, const std::string& topic, QoS qos) {
    if (!is_here(who) || client(who).on_their_way() >= most_on_their_way) return;
    DeliveryModel::Note note{.topic = topic, .qos = qos, .publisher = client(who).terms().name};
    note.for_newcomer = std::ranges::any_of(clients_, [&](const DurableClient& other) {
        return other.terms().is_newcomer && !other.has_been_here() &&
               topic == "inbox/" + other.terms().user;
    });
    if (topic == DeliveryModel::room)
        for (const DurableClient& other : clients_)
            if (other.terms().is_newcomer && !other.has_been_here())
                note.newcomers.insert(other.terms().name);
    const auto number = model_.publish(note);
    log(fmt::format("{} publishes {} to {} at QoS {}", note.publisher, number, topic,
                    static_cast<int>(qos)));
    client(who).publish(number, topic);
    finish_turn();
}

void CrashPlay::retain(Who who, QoS qos, bool deletes) {
    if (!is_here(who) || client(who).on_their_way() >= most_on_their_way) return;
    // What is sent again at QoS 1 may overtake a later value of QoS 2.
    const auto topic = fmt::format("r/{}/{}", client(who).terms().name, static_cast<int>(qos));
    const auto number = model_.publish({.topic = topic,
                                        .qos = qos,
                                        .publisher = client(who).terms().name,
                                        .retain = true,
                                        .deletes = deletes});
    log(fmt::format("{} {} to {} at QoS {}", number, deletes ? "deletes" : "is retained", topic,
                    static_cast<int>(qos)));
    client(who).publish(number, topic);
    finish_turn();
}

void CrashPlay::delay(Who who, const std::string& topic, QoS qos, unsigned seconds) {
    if (!is_here(who) || client(who).on_their_way() >= most_on_their_way) return;
    const auto number = model_.publish({.topic = topic,
                                        .qos = qos,
                                        .publisher = client(who).terms().name,
                                        .kind = DeliveryModel::Kind::delayed,
                                        .due = calendar_time(now_) + Millis{seconds} * 1000});
    log(fmt::format("{} publishes {} to {} in {} s at QoS {}", client(who).terms().name, number,
                    topic, seconds, static_cast<int>(qos)));
    delayed_.emplace_back(number, who);
    client(who).publish_delayed(number, seconds);
    finish_turn();
}

void CrashPlay::cancel(Who who, QoS qos) {
    const auto own = std::ranges::find(delayed_, who, [](const auto& each) { return each.second; });
    if (!is_here(who) || own == delayed_.end()) return;
    log(fmt::format("{} cancels {}", client(who).terms().name, own->first));
    client(who).cancel(own->first, qos);
    delayed_.erase(own);
    finish_turn();
}

void CrashPlay::become_slow(Who who) {
    log(fmt::format("{} becomes slow", client(who).terms().name));
    client(who).acknowledges_at_once = false;
}

void CrashPlay::acknowledge(Who who) {
    log(fmt::format("{} acknowledges all", client(who).terms().name));
    client(who).acknowledge();
    finish_turn();
}

void CrashPlay::arrive() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
        const DurableClient::Terms& terms = clients_[i].terms();
        const bool comes = !terms.is_newcomer && (!terms.is_guest || scene_.has_guests);
        if (comes) connect(static_cast<Who>(i));
    }
    for (const auto& [who, filter, qos] : usual_subscriptions()) subscribe(who, filter, qos);
}

// -- the end --

/// Everybody completes everything; nothing is lost, and at QoS 2 nothing comes again later.
void CrashPlay::end() {
    for (bool is_done = false; !is_done;)
        guarded([&] {
            await_wills();
            int quiet = 0;
            for (int rounds = 0; quiet < 3; ++rounds) {
                if (rounds > 60) throw Broken("it never becomes quiet");
                quiet = round_of_end() ? quiet + 1 : 0;
            }
            look_at_what_is_retained();
            for (std::size_t i = 0; i < clients_.size(); ++i) disconnect(static_cast<Who>(i));
            settle(true);
            note_versions();
            is_done = !store_refuses();
        });
    model_.check_complete();
    look_for_repetitions();
}

/// Of clients that were not back in time after a crash.
void CrashPlay::await_wills() {
    if (!std::ranges::any_of(clients_, &DurableClient::awaits_will)) return;
    pass(started_ + DurableClient::limit + 1000 - now_);
    settle(true);
}

/// True if nothing was left to do.
bool CrashPlay::round_of_end() {
    bool is_idle = true;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
        if (!clients_[i].is_here()) {
            connect(static_cast<Who>(i));
            is_idle = false;
        }
        clients_[i].acknowledges_at_once = true;
        acknowledge(static_cast<Who>(i));
    }
    pass(1000);
    settle(true);
    for (DurableClient& client : clients_)
        is_idle &= client.take_received() == 0 && client.is_idle() && client.is_here();
    return is_idle && !store_refuses() && ledger_->delayed_total(std::nullopt).messages == 0;
}

void CrashPlay::look_at_what_is_retained() {
    const auto name = fmt::format("looker-{}", ++looks_);
    DurableClient looker({.name = name, .user = name, .keeps_session = false}, model_,
                         [this](std::string what) { log(std::move(what)); });
    const auto read_all = [&] {
        do {
            deliver_all();
            cluster_->end_turn();
        } while (looker.read() || cluster_->has_messages());
    };
    looker.connect(*cluster_, true);
    read_all();
    looker.subscribe("r/#", QoS::at_most_once);
    read_all();
    for (const std::string& topic : model_.retained_topics()) {
        const auto found = looker.retained().find(topic);
        model_.check_retained(
            topic, found == looker.retained().end() ? std::nullopt : std::optional(found->second));
    }
    looker.disconnect();
    read_all();
}

/// What comes again at QoS 2, the model finds.
void CrashPlay::look_for_repetitions() {
    log("once more");
    fails_again_ = false;
    disk_.cut_power();
    crash();
    for (std::size_t i = 0; i < clients_.size(); ++i)
        if (clients_[i].terms().keeps_session) connect(static_cast<Who>(i));
    settle(true);
    pass(1000);
    settle(true);
}

}  // namespace pulsegate
