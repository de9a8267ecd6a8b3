#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/broker_cluster.h"
#include "tests/support/delivery_model.h"
#include "tests/support/durable_client.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/pumped_ledger.h"
#include "tests/support/random_people.h"

namespace pulsegate {

/// Clients play with the brokers of a gateway and a real ledger, on a disk that fails once or
/// twice. When it is dead the brokers are gone; others begin with what is on the disk, and the
/// clients come back. In the end they complete everything, and the model judges.
class CrashPlay {
public:
    using Step = std::function<void(CrashPlay&)>;

    struct Scene {
        unsigned shards = 1;
        std::vector<Step> script{};  ///< empty: `steps` that are drawn by chance
        int steps = 0;
        std::uint32_t seed = 1;  ///< of that chance
        bool has_guests = false;
        bool packs = false;     ///< sessions as soon as they are away
        int upgrade_after = 0;  ///< so many steps, again and again; 0: never
    };

    /// `folder` is for the lock of the store; what is on the disk `beginning` is there already.
    CrashPlay(const Scene& scene, std::string folder, const FaultyDisk& beginning);
    ~CrashPlay();

    /// Before `run`. What else goes wrong in this life is drawn by the second seed.
    void fail_at(std::uint64_t step, FaultyDisk::Fault fault, std::uint32_t seed);

    /// Throws Broken.
    void run();

    std::uint64_t disk_steps() const { return disk_.steps(); }
    const FaultyDisk& disk() const { return disk_; }
    /// The last events.
    std::string journal() const;

    // -- steps of scripts; a disconnected client does nothing

    using enum CrashPerson;
    using Who = CrashPerson;

    void connect(Who who, bool clean = false, bool with_will = false);
    void disconnect(Who who);
    void lose(Who who);
    void subscribe(Who who, const std::string& filter, QoS qos);
    void unsubscribe(Who who, const std::string& filter);
    void publish(Who who, const std::string& topic, QoS qos);
    void retain(Who who, QoS qos, bool deletes = false);
    void delay(Who who, const std::string& topic, QoS qos, unsigned seconds);
    /// The latest delayed message.
    void cancel(Who who, QoS qos);
    void become_slow(Who who);
    void acknowledge(Who who);
    /// All clients that are there from the beginning connect and subscribe.
    void arrive();
    bool is_here(Who who) { return client(who).is_here(); }

    void pass(Millis time);
    void deliver_one();
    void deliver_all();
    void commit();
    /// The gateway stops, as it does when it is told to, and starts again.
    void stop();
    /// A new version of it takes its place, with another number of shards: nobody notices.
    void upgrade(unsigned shards);
    /// The new version fails, and the gateway goes on.
    void fail_to_upgrade();
    /// All messages between shards arrive, and everything is committed; `lazy_too`, or but for what
    /// may be lost.
    void settle(bool lazy_too = false);

private:
    unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
    DurableClient& client(Who who) { return clients_[static_cast<std::size_t>(who)]; }
    void log(std::string what);

    void finish_turn();
    void tick();

    template <class Act>
    void guarded(Act act);
    void crash();
    void begin_anew();
    bool freeze();
    void restart_disk();
    void start();
    void open();
    void adopt();
    void check_start();
    void note_versions();

    void end();
    void await_wills();
    bool round_of_end();
    void look_at_what_is_retained();
    void look_for_repetitions();
    bool store_refuses();

    struct Version {
        std::uint64_t number = 0;
        bool online = false;
    };

    Scene scene_;
    const std::string folder_;
    FaultyDisk disk_;
    std::mt19937 random_;
    RandomPeople chance_;
    std::mt19937 random_faults_;
    bool impatient_ = false;    ///< the store refuses at once when the disk fails
    bool fails_again_ = false;  ///< soon after the next start
    bool loses_power_ = false;  ///< when the play ends
    DeliveryModel model_;
    std::deque<DurableClient> clients_;
    std::unique_ptr<PumpedLedger> ledger_;
    std::unique_ptr<BrokerCluster> cluster_;
    Millis now_;
    Millis started_ = 0;                       ///< the latest life of the gateway
    Stamp committed_ = 0;                      ///< the highest stamp in any life
    std::map<std::string, Version> versions_;  ///< of presence, by user, on the disk
    std::vector<std::pair<DurableClient*, SessionRecord>> passing_;  ///< in an upgrade
    std::map<std::string, Version> told_;                            ///< the same, stored or not
    std::vector<std::pair<DeliveryModel::Number, Who>> delayed_;
    std::deque<std::string> journal_;
    int step_ = 0;
    unsigned looks_ = 0;
};

}  // namespace pulsegate
