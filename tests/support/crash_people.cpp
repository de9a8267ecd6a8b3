#include "tests/support/crash_people.h"

namespace pulsegate {

namespace {

constexpr const char* workers = "$share/g/s/0";

const std::vector<DurableClient::Terms> people{
    {.name = "phone", .user = "ann"},
    {.name = "desk", .user = "ann", .version = Version::v3_1_1},
    {.name = "phone-of-bob", .user = "bob", .version = Version::v3_1_1},
    {.name = "desk-of-bob", .user = "bob", .keeps_session = false},
    {.name = "cat", .user = "cat", .window = 2},
    {.name = "worker", .user = "worker"},
    {.name = "helper", .user = "helper", .version = Version::v3_1_1},
    {.name = "dan", .user = "dan", .is_newcomer = true},
    {.name = "eve",
     .user = "eve",
     .version = Version::v3_1_1,
     .keeps_session = false,
     .is_newcomer = true},
    {.name = "fay", .user = "fay"},
    {.name = "gus", .user = "gus", .is_guest = true},
    {.name = "hal", .user = "hal", .keeps_session = false, .is_guest = true},
};

const std::vector<UsualSubscription> subscriptions{
    {CrashPerson::ann_phone, "t/0", QoS::exactly_once},
    {CrashPerson::ann_phone, "t/1", QoS::at_least_once},
    {CrashPerson::ann_desk, "t/0", QoS::at_least_once},
    {CrashPerson::bob_phone, "t/0", QoS::exactly_once},
    {CrashPerson::bob_phone, "t/2", QoS::exactly_once},
    {CrashPerson::bob_desk, "t/1", QoS::at_least_once},
    {CrashPerson::bob_desk, "t/2", QoS::exactly_once},
    {CrashPerson::cat, "t/1", QoS::exactly_once},
    {CrashPerson::cat, "t/2", QoS::at_least_once},
    {CrashPerson::worker, workers, QoS::exactly_once},
    {CrashPerson::helper, workers, QoS::exactly_once},
    {CrashPerson::dan, "t/2", QoS::at_least_once},
    {CrashPerson::fay, workers, QoS::exactly_once},
    {CrashPerson::gus, workers, QoS::at_most_once},
    {CrashPerson::hal, workers, QoS::exactly_once},
};

}  // namespace

const std::vector<DurableClient::Terms>& crash_people() { return people; }

const std::vector<UsualSubscription>& usual_subscriptions() { return subscriptions; }

}  // namespace pulsegate
