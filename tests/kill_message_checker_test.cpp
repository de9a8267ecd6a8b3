#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "loadgen/kill/checks.h"
#include "loadgen/kill/message_checker.h"
#include "loadgen/report/checks.h"

using namespace pulsegate::kill;
using pulsegate::QoS;
using namespace std::chrono_literals;

namespace {

constexpr Stream qos_1{Kind::qos_1, 3, 5};
constexpr Stream qos_2{Kind::qos_2, 3, 5};
constexpr Stream mixed{Kind::mixed, 3, 5};
constexpr Stream shared{Kind::shared, 3, 5};
constexpr Stream delayed{Kind::delayed, 3, 5};
constexpr Stream will{Kind::will, 3, 5};
constexpr Stream value{Kind::retained, 3, 0};

bool keeps(const MessageChecker& checker) {
    return overall(checks_of(checker)) != pulsegate::load::CheckResult::Outcome::failed;
}

/// Publisher 3 publishes to receiver 5, which is connected from the beginning.
struct CheckedMessages {
    MessageChecker checker;
    Time now{1h};

    Message acknowledged(const Stream& stream, const Terms& terms = {}) {
        const auto message = checker.send(stream, now, terms);
        checker.acknowledge(message, now);
        return message;
    }
    /// The first, or one more that has this QoS.
    Message acknowledged_at(QoS qos, const Stream& stream) {
        for (;;)
            if (const auto message = acknowledged(stream); qos_of(message) == qos) return message;
    }
    Arrival arrival() const { return {.receiver = 5, .at = now, .connected_since = Time(1h)}; }
    void receive(const Message& message) { checker.receive(message, arrival()); }
    const Counts& counts(const Stream& stream) const { return checker.counts(stream.kind); }
    std::string only_fault() const {
        REQUIRE(checker.faults().size() == 1);
        return checker.faults().front().what;
    }
};

}  // namespace

TEST_CASE_FIXTURE(CheckedMessages, "kill: what is acknowledged and received in order is kept") {
    for (const auto& stream : {qos_1, qos_2}) {
        const auto first = acknowledged(stream);
        const auto second = checker.send(stream, now);
        receive(first);
        receive(second);  // before its acknowledgement
        checker.acknowledge(second, now);
        CHECK(counts(stream).sent == 2);
        CHECK(counts(stream).acknowledged == 2);
        CHECK(counts(stream).received == 2);
    }
    CHECK(checker.missing() == 0);
    CHECK(keeps(checker));
    CHECK(checker.faults().empty());
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: what is acknowledged and never received is lost") {
    receive(acknowledged(qos_2));
    acknowledged(qos_2);
    CHECK(counts(qos_2).lost == 1);
    CHECK(checker.missing() == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "lost: QoS 2 message 2 of publisher 3 to receiver 5");
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: what was refused, not answered or given up is not lost") {
    checker.send(qos_1, now);
    checker.refuse(checker.send(qos_1, now));
    checker.give_up(checker.send(qos_2, now));
    CHECK(counts(qos_1).refused == 1);
    CHECK(counts(qos_2).unknown == 1);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a repetition is counted at QoS 1 and a fault at QoS 2") {
    const auto allowed = acknowledged(qos_1);
    receive(allowed);
    receive(allowed);
    CHECK(counts(qos_1).repeated == 1);
    CHECK(counts(qos_1).wrongly_repeated == 0);
    CHECK(counts(qos_1).received == 1);
    CHECK(keeps(checker));

    const auto forbidden = acknowledged(qos_2);
    receive(forbidden);
    receive(forbidden);
    CHECK(counts(qos_2).repeated == 1);
    CHECK(counts(qos_2).wrongly_repeated == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "repeated: QoS 2 message 1 of publisher 3 to receiver 5");
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a first delivery after a later one is out of order") {
    const auto first = acknowledged(qos_1);
    const auto second = acknowledged(qos_1);
    receive(second);
    CHECK(keeps(checker) == false);  // the first is still to come
    receive(first);
    receive(second);  // repetitions have no order
    CHECK(counts(qos_1).out_of_order == 1);
    CHECK(counts(qos_1).lost == 0);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "out of order: QoS 1 message 1 of publisher 3 to receiver 5 after 2");
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: there is no order across the loss of a receiver's session") {
    const auto first = acknowledged(qos_1);
    receive(acknowledged(qos_1));
    checker.begin_order_anew(5);
    receive(first);
    CHECK(counts(qos_1).out_of_order == 0);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: topics have no order among each other") {
    const auto first = acknowledged(qos_1);
    const auto other_topic = acknowledged(qos_2);
    const auto other_publisher = acknowledged({Kind::qos_1, 4, 5});
    receive(other_publisher);
    receive(other_topic);
    receive(first);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a delayed message that comes before its time is early") {
    const auto message = acknowledged(delayed, {.delay = 5s});
    CHECK(checker.last_due() == now + 5s);
    now += 5s - early_tolerance;
    receive(message);
    CHECK(counts(delayed).early == 0);

    const auto hasty = acknowledged(delayed, {.delay = 5s});
    now += 4900ms;
    receive(hasty);
    CHECK(counts(delayed).early == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "early: delayed message 2 of publisher 3 to receiver 5 by 100 ms");
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a delayed message is late if its receiver was there") {
    const auto in_time = acknowledged(delayed, {.delay = 5s});
    const auto late = acknowledged(delayed, {.delay = 5s});
    const auto fetched = acknowledged(delayed, {.delay = 5s});
    now += 5s + late_after;
    receive(in_time);
    CHECK(counts(delayed).late == 0);
    CHECK(counts(delayed).latest == late_after);
    now += 1s;
    receive(late);
    CHECK(counts(delayed).late == 1);
    CHECK(counts(delayed).latest == late_after + 1s);
    checker.receive(fetched, {.receiver = 5, .at = now, .connected_since = now});  // just back
    CHECK(counts(delayed).late == 1);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: an acknowledged delayed message that never comes is lost") {
    acknowledged(delayed, {.delay = 1s});
    CHECK(checker.missing() == 1);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a new subscriber must get the last acknowledged value or later") {
    CHECK(checker.acknowledged_values().empty());
    acknowledged(value);
    acknowledged(value);
    const auto third = checker.send(value, now);
    const auto least = checker.acknowledged_values().at(value);
    CHECK(least == 2);
    checker.read_value({value, 2}, least, now);
    checker.read_value(third, least, now);
    CHECK(counts(value).received == 2);
    CHECK(checker.missing() == 0);
    CHECK(keeps(checker));

    checker.read_value({value, 1}, least, now);
    CHECK(counts(value).lost == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "lost: value 2 of publisher 3 on its topic 0; the one that is there: 1");
    checker.read_value({value, 0}, least, now);
    CHECK(counts(value).lost == 2);
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a value that was never set is a breach") {
    acknowledged(value);
    checker.read_value({value, 2}, 1, now);
    CHECK(checker.other_faults() == 1);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(
    CheckedMessages,
    "kill: a message that was never sent, or was sent to another receiver, is a breach") {
    receive({qos_1, 1});
    CHECK(checker.other_faults() == 1);
    const auto message = acknowledged(qos_1);
    checker.receive(message, {.receiver = 6, .at = now});
    CHECK(checker.other_faults() == 2);
    CHECK(counts(qos_1).received == 0);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a promised will is lost if it never comes, and may come before") {
    const auto before = checker.send(will, now);
    checker.begin_will(before, now);
    receive(before);
    checker.acknowledge(before, now);
    CHECK(keeps(checker));
    acknowledged(will);
    CHECK(counts(will).lost == 1);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a will that comes before its client is gone is early") {
    const auto message = checker.send(will, now);
    receive(message);
    CHECK(counts(will).early == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "early: will 1 of client 3 to receiver 5 while its client was connected");
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a will that comes before the end of its delay is early") {
    const auto message = checker.send(will, now);
    checker.begin_will(message, now + 2s);
    now += 1s;
    receive(message);
    CHECK(counts(will).early == 1);
    CHECK(only_fault() == "early: will 1 of client 3 to receiver 5 by 1 s");
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a will that was taken back is unwanted, whenever it comes") {
    const auto after = checker.send(will, now);
    checker.take_back(after, now);
    checker.begin_will(after, now);
    CHECK(keeps(checker));
    receive(after);
    CHECK(counts(will).unwanted == 1);
    const auto before = checker.send(will, now);
    checker.begin_will(before, now);
    receive(before);
    CHECK(counts(will).unwanted == 1);
    checker.take_back(before, now);
    CHECK(counts(will).unwanted == 2);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a will comes once") {
    const auto message = acknowledged(will);
    checker.begin_will(message, now);
    receive(message);
    CHECK(keeps(checker));
    receive(message);
    CHECK(counts(will).wrongly_repeated == 1);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a conversation keeps its order whatever the QoS") {
    const auto first = acknowledged_at(QoS::at_least_once, mixed);
    const auto second = acknowledged_at(QoS::exactly_once, mixed);
    for (std::uint32_t number = 1; number < first.number; ++number) receive({mixed, number});
    for (std::uint32_t number = first.number + 1; number <= second.number; ++number)
        receive({mixed, number});
    CHECK(counts(mixed).out_of_order == 0);
    receive(first);
    CHECK(counts(mixed).out_of_order == 1);
    CHECK(counts(mixed).lost == 0);
    CHECK_FALSE(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a repetition is judged by its message's QoS") {
    const auto twice = [this](const Message& message) {
        receive(message);
        receive(message);
    };
    twice(acknowledged_at(QoS::at_least_once, {Kind::inbox, 3, 5}));
    CHECK(checker.counts(Kind::inbox).wrongly_repeated == 0);
    twice(acknowledged_at(QoS::exactly_once, {Kind::room, 3, 5}));
    CHECK(checker.counts(Kind::room).wrongly_repeated == 1);
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: without a kept session what was on its way comes again") {
    const auto message = acknowledged_at(QoS::exactly_once, {Kind::inbox, 3, 5});
    receive(message);
    auto again = arrival();
    again.session_kept = false;
    checker.receive(message, again);
    CHECK(checker.counts(Kind::inbox).repeated == 1);
    CHECK(checker.counts(Kind::inbox).wrongly_repeated == 0);
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a client without a kept session must get what came while the broker knew "
                  "that it was away") {
    const Stream inbox{Kind::inbox, 3, 5};
    checker.keep_no_session(5, std::nullopt);
    acknowledged(inbox);
    checker.keep_no_session(5, now + 1ms);
    acknowledged(inbox);
    CHECK(checker.missing() == 0);
    now += 1ms;
    const auto promised = acknowledged(inbox);
    const auto open = checker.send(inbox, now);
    checker.keep_no_session(5, std::nullopt);
    checker.acknowledge(open, now);
    CHECK(checker.missing() == 1);
    CHECK(only_fault() == "lost: inbox message 3 of publisher 3 to receiver 5");
    receive(promised);
    CHECK(keeps(checker));
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a group gets a message once while the first to get it is there") {
    const auto message = acknowledged_at(QoS::at_least_once, shared);
    checker.attend(1, now);
    checker.attend(2, now);
    const auto at = [this](std::uint16_t member, Time connected_since) {
        auto arrival = this->arrival();
        arrival.member = member;
        arrival.connected_since = connected_since;
        return arrival;
    };
    checker.receive(message, at(1, now));
    SUBCASE("it is there") {
        checker.receive(message, at(2, now));
        CHECK(counts(shared).wrongly_repeated == 1);
        CHECK_FALSE(keeps(checker));
    }
    SUBCASE("it is gone") {
        checker.attend(1, Time());
        checker.receive(message, at(2, now));
        CHECK(counts(shared).wrongly_repeated == 0);
    }
    SUBCASE("its publisher has sent it again") {
        checker.send_again(message);
        checker.receive(message, at(2, now));
        CHECK(counts(shared).repeated == 1);
        CHECK(counts(shared).wrongly_repeated == 0);
    }
    SUBCASE("it was gone") {
        checker.attend(1, now + 1s);
        checker.receive(message, at(2, now));
        CHECK(counts(shared).repeated == 1);
        CHECK(counts(shared).wrongly_repeated == 0);
    }
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a message that may expire is not lost, and must not come later") {
    const auto message = acknowledged(mixed, {.lifetime = 2s});
    CHECK(checker.missing() == 0);
    CHECK(keeps(checker));
    now += 2s + outdated_after;
    SUBCASE("in time") {
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    now += 100ms;
    SUBCASE("too late") {
        receive(message);
        CHECK(counts(mixed).outdated == 1);
        CHECK_FALSE(keeps(checker));
        CHECK(only_fault() ==
              "outdated: mixed message 1 of publisher 3 to receiver 5 came after 3.1 s and was to "
              "live for 2 s");
    }
    SUBCASE("its delivery had begun before") {
        auto again = arrival();
        again.dup = true;
        checker.receive(message, again);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("the clock was put back") {
        checker.step_clock(-1h, now);
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("the clock was put forward") {
        checker.step_clock(1h, now);
        receive(message);
        CHECK(counts(mixed).outdated == 1);
    }
    SUBCASE("this program stood still, so it may have come before") {
        checker.stall(200ms, now);
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("this program stood still, but not for so long") {
        checker.stall(50ms, now);
        receive(message);
        CHECK(counts(mixed).outdated == 1);
    }
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a message that may expire has its order once") {
    const auto first = checker.send(mixed, now, {.lifetime = 2s});
    SUBCASE("it was sent again: the first copy may have expired") {
        checker.send_again(first);
        receive(acknowledged(mixed));
        receive(first);
        CHECK(counts(mixed).out_of_order == 0);
    }
    SUBCASE("it was sent once") {
        receive(acknowledged(mixed));
        receive(first);
        CHECK(counts(mixed).out_of_order == 1);
    }
    SUBCASE("what was sent again outlives the run") {
        const auto lasting = checker.send(mixed, now, {.lifetime = 24h});
        checker.send_again(lasting);
        receive(acknowledged(mixed));
        receive(lasting);
        CHECK(counts(mixed).out_of_order == 1);
    }
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: a message that outlives the run is lost if it never comes") {
    acknowledged(mixed, {.lifetime = 24h});
    CHECK(checker.missing() == 1);
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: only a clock that was put forward makes a message early") {
    const auto excused = acknowledged(delayed, {.delay = 5s});
    const auto early = acknowledged(delayed, {.delay = 5s});
    now += 1s;
    checker.step_clock(-1h, now);
    receive(early);
    CHECK(counts(delayed).early == 1);
    checker.step_clock(1h, now);
    receive(excused);
    CHECK(counts(delayed).early == 1);
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: a session that is gone is a fault") {
    checker.lose_session("receiver 5", now);
    CHECK(checker.sessions_lost() == 1);
    CHECK_FALSE(keeps(checker));
    CHECK(only_fault() == "session lost: receiver 5");
}

TEST_CASE_FIXTURE(CheckedMessages,
                  "kill: each promise has a check, which says how often it was broken") {
    using Outcome = pulsegate::load::CheckResult::Outcome;
    const auto outcome = [this](std::string_view name) {
        const auto checks = checks_of(checker);
        const auto found = std::ranges::find(checks, name, &pulsegate::load::CheckResult::name);
        REQUIRE(found != checks.end());
        return std::pair(found->outcome, found->detail);
    };
    CHECK(outcome("lost").first == Outcome::skipped);
    const Results none;
    CHECK(checks_of(none).front().outcome == Outcome::failed);  // nothing was acknowledged
    const auto message = acknowledged(qos_2);
    CHECK(outcome("lost") == std::pair(Outcome::failed, std::string("1 lost")));
    CHECK(outcome("early").first == Outcome::skipped);
    receive(message);
    receive(message);
    CHECK(outcome("lost").first == Outcome::passed);
    CHECK(outcome("repeated") == std::pair(Outcome::failed, std::string("1 wrongly repeated")));
}

TEST_CASE_FIXTURE(CheckedMessages, "kill: words of the broker are told in printable characters") {
    checker.note_fault("to x on \x1b[2J\xff: not what was sent", now);
    CHECK(only_fault() == "breach: to x on ?[2J?: not what was sent");
}
