#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "loadgen/kill/book.h"
#include "loadgen/kill/checks.h"
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

bool keeps(const Book& book) {
    return overall(checks_of(book)) != pulsegate::load::CheckResult::Outcome::failed;
}

/// Publisher 3 publishes to receiver 5, which is connected from the beginning.
struct Pages {
    Book book;
    Time now{1h};

    Message acknowledged(const Stream& stream, const Terms& terms = {}) {
        const auto message = book.send(stream, now, terms);
        book.acknowledge(message, now);
        return message;
    }
    /// The first, or one more that has this QoS.
    Message acknowledged_at(QoS qos, const Stream& stream) {
        for (;;)
            if (const auto message = acknowledged(stream); qos_of(message) == qos) return message;
    }
    Arrival arrival() const { return {.receiver = 5, .at = now, .connected_since = Time(1h)}; }
    void receive(const Message& message) { book.receive(message, arrival()); }
    const Counts& counts(const Stream& stream) const { return book.counts(stream.kind); }
    std::string only_fault() const {
        REQUIRE(book.faults().size() == 1);
        return book.faults().front().what;
    }
};

}  // namespace

TEST_CASE_FIXTURE(Pages, "kill: what is acknowledged and received in order is kept") {
    for (const auto& stream : {qos_1, qos_2}) {
        const auto first = acknowledged(stream);
        const auto second = book.send(stream, now);
        receive(first);
        receive(second);  // before its acknowledgement
        book.acknowledge(second, now);
        CHECK(counts(stream).sent == 2);
        CHECK(counts(stream).acknowledged == 2);
        CHECK(counts(stream).received == 2);
    }
    CHECK(book.missing() == 0);
    CHECK(keeps(book));
    CHECK(book.faults().empty());
}

TEST_CASE_FIXTURE(Pages, "kill: what is acknowledged and never received is lost") {
    receive(acknowledged(qos_2));
    acknowledged(qos_2);
    CHECK(counts(qos_2).lost == 1);
    CHECK(book.missing() == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "lost: QoS 2 message 2 of publisher 3 to receiver 5");
}

TEST_CASE_FIXTURE(Pages, "kill: what was refused, not answered or given up is not lost") {
    book.send(qos_1, now);
    book.refuse(book.send(qos_1, now));
    book.give_up(book.send(qos_2, now));
    CHECK(counts(qos_1).refused == 1);
    CHECK(counts(qos_2).unknown == 1);
    CHECK(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a repetition is counted at QoS 1 and a fault at QoS 2") {
    const auto allowed = acknowledged(qos_1);
    receive(allowed);
    receive(allowed);
    CHECK(counts(qos_1).repeated == 1);
    CHECK(counts(qos_1).wrongly_repeated == 0);
    CHECK(counts(qos_1).received == 1);
    CHECK(keeps(book));

    const auto forbidden = acknowledged(qos_2);
    receive(forbidden);
    receive(forbidden);
    CHECK(counts(qos_2).repeated == 1);
    CHECK(counts(qos_2).wrongly_repeated == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "repeated: QoS 2 message 1 of publisher 3 to receiver 5");
}

TEST_CASE_FIXTURE(Pages, "kill: a first delivery after a later one is out of order") {
    const auto first = acknowledged(qos_1);
    const auto second = acknowledged(qos_1);
    receive(second);
    CHECK(keeps(book) == false);  // the first is still to come
    receive(first);
    receive(second);  // repetitions have no order
    CHECK(counts(qos_1).out_of_order == 1);
    CHECK(counts(qos_1).lost == 0);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "out of order: QoS 1 message 1 of publisher 3 to receiver 5 after 2");
}

TEST_CASE_FIXTURE(Pages, "kill: there is no order across the loss of a receiver's session") {
    const auto first = acknowledged(qos_1);
    receive(acknowledged(qos_1));
    book.begin_order_anew(5);
    receive(first);
    CHECK(counts(qos_1).out_of_order == 0);
    CHECK(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: topics have no order among each other") {
    const auto first = acknowledged(qos_1);
    const auto other_topic = acknowledged(qos_2);
    const auto other_publisher = acknowledged({Kind::qos_1, 4, 5});
    receive(other_publisher);
    receive(other_topic);
    receive(first);
    CHECK(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a delayed message that comes before its time is early") {
    const auto message = acknowledged(delayed, {.delay = 5s});
    CHECK(book.last_due() == now + 5s);
    now += 5s - early_tolerance;
    receive(message);
    CHECK(counts(delayed).early == 0);

    const auto hasty = acknowledged(delayed, {.delay = 5s});
    now += 4900ms;
    receive(hasty);
    CHECK(counts(delayed).early == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "early: delayed message 2 of publisher 3 to receiver 5 by 100 ms");
}

TEST_CASE_FIXTURE(Pages, "kill: a delayed message is late if its receiver was there") {
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
    book.receive(fetched, {.receiver = 5, .at = now, .connected_since = now});  // just back
    CHECK(counts(delayed).late == 1);
    CHECK(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: an acknowledged delayed message that never comes is lost") {
    acknowledged(delayed, {.delay = 1s});
    CHECK(book.missing() == 1);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a new subscriber must get the last acknowledged value or later") {
    CHECK(book.acknowledged_values().empty());
    acknowledged(value);
    acknowledged(value);
    const auto third = book.send(value, now);
    const auto least = book.acknowledged_values().at(value);
    CHECK(least == 2);
    book.read_value({value, 2}, least, now);
    book.read_value(third, least, now);
    CHECK(counts(value).received == 2);
    CHECK(book.missing() == 0);
    CHECK(keeps(book));

    book.read_value({value, 1}, least, now);
    CHECK(counts(value).lost == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "lost: value 2 of publisher 3 on its topic 0; the one that is there: 1");
    book.read_value({value, 0}, least, now);
    CHECK(counts(value).lost == 2);
}

TEST_CASE_FIXTURE(Pages, "kill: a value that was never set is a breach") {
    acknowledged(value);
    book.read_value({value, 2}, 1, now);
    CHECK(book.other_faults() == 1);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(
    Pages, "kill: a message that was never sent, or was sent to another receiver, is a breach") {
    receive({qos_1, 1});
    CHECK(book.other_faults() == 1);
    const auto message = acknowledged(qos_1);
    book.receive(message, {.receiver = 6, .at = now});
    CHECK(book.other_faults() == 2);
    CHECK(counts(qos_1).received == 0);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a promised will is lost if it never comes, and may come before") {
    const auto before = book.send(will, now);
    book.begin_will(before, now);
    receive(before);
    book.acknowledge(before, now);
    CHECK(keeps(book));
    acknowledged(will);
    CHECK(counts(will).lost == 1);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a will that comes before its client is gone is early") {
    const auto message = book.send(will, now);
    receive(message);
    CHECK(counts(will).early == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "early: will 1 of client 3 to receiver 5 while its client was connected");
}

TEST_CASE_FIXTURE(Pages, "kill: a will that comes before the end of its delay is early") {
    const auto message = book.send(will, now);
    book.begin_will(message, now + 2s);
    now += 1s;
    receive(message);
    CHECK(counts(will).early == 1);
    CHECK(only_fault() == "early: will 1 of client 3 to receiver 5 by 1 s");
}

TEST_CASE_FIXTURE(Pages, "kill: a will that was taken back is unwanted, whenever it comes") {
    const auto after = book.send(will, now);
    book.take_back(after, now);
    book.begin_will(after, now);
    CHECK(keeps(book));
    receive(after);
    CHECK(counts(will).unwanted == 1);
    const auto before = book.send(will, now);
    book.begin_will(before, now);
    receive(before);
    CHECK(counts(will).unwanted == 1);
    book.take_back(before, now);
    CHECK(counts(will).unwanted == 2);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a will comes once") {
    const auto message = acknowledged(will);
    book.begin_will(message, now);
    receive(message);
    CHECK(keeps(book));
    receive(message);
    CHECK(counts(will).wrongly_repeated == 1);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a conversation keeps its order whatever the QoS") {
    const auto first = acknowledged_at(QoS::at_least_once, mixed);
    const auto second = acknowledged_at(QoS::exactly_once, mixed);
    for (std::uint32_t number = 1; number < first.number; ++number) receive({mixed, number});
    for (std::uint32_t number = first.number + 1; number <= second.number; ++number)
        receive({mixed, number});
    CHECK(counts(mixed).out_of_order == 0);
    receive(first);
    CHECK(counts(mixed).out_of_order == 1);
    CHECK(counts(mixed).lost == 0);
    CHECK_FALSE(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a repetition is judged by its message's QoS") {
    const auto twice = [this](const Message& message) {
        receive(message);
        receive(message);
    };
    twice(acknowledged_at(QoS::at_least_once, {Kind::inbox, 3, 5}));
    CHECK(book.counts(Kind::inbox).wrongly_repeated == 0);
    twice(acknowledged_at(QoS::exactly_once, {Kind::room, 3, 5}));
    CHECK(book.counts(Kind::room).wrongly_repeated == 1);
}

TEST_CASE_FIXTURE(Pages, "kill: without a kept session what was on its way comes again") {
    const auto message = acknowledged_at(QoS::exactly_once, {Kind::inbox, 3, 5});
    receive(message);
    auto again = arrival();
    again.session_kept = false;
    book.receive(message, again);
    CHECK(book.counts(Kind::inbox).repeated == 1);
    CHECK(book.counts(Kind::inbox).wrongly_repeated == 0);
}

TEST_CASE_FIXTURE(Pages,
                  "kill: a client without a kept session must get what came while the broker knew "
                  "that it was away") {
    const Stream inbox{Kind::inbox, 3, 5};
    book.keep_no_session(5, std::nullopt);
    acknowledged(inbox);
    book.keep_no_session(5, now + 1ms);
    acknowledged(inbox);
    CHECK(book.missing() == 0);
    now += 1ms;
    const auto promised = acknowledged(inbox);
    const auto open = book.send(inbox, now);
    book.keep_no_session(5, std::nullopt);
    book.acknowledge(open, now);
    CHECK(book.missing() == 1);
    CHECK(only_fault() == "lost: inbox message 3 of publisher 3 to receiver 5");
    receive(promised);
    CHECK(keeps(book));
}

TEST_CASE_FIXTURE(Pages, "kill: a group gets a message once while the first to get it is there") {
    const auto message = acknowledged_at(QoS::at_least_once, shared);
    book.attend(1, now);
    book.attend(2, now);
    const auto at = [this](std::uint16_t member, Time connected_since) {
        auto arrival = this->arrival();
        arrival.member = member;
        arrival.connected_since = connected_since;
        return arrival;
    };
    book.receive(message, at(1, now));
    SUBCASE("it is there") {
        book.receive(message, at(2, now));
        CHECK(counts(shared).wrongly_repeated == 1);
        CHECK_FALSE(keeps(book));
    }
    SUBCASE("it is gone") {
        book.attend(1, Time());
        book.receive(message, at(2, now));
        CHECK(counts(shared).wrongly_repeated == 0);
    }
    SUBCASE("its publisher has sent it again") {
        book.send_again(message);
        book.receive(message, at(2, now));
        CHECK(counts(shared).repeated == 1);
        CHECK(counts(shared).wrongly_repeated == 0);
    }
    SUBCASE("it was gone") {
        book.attend(1, now + 1s);
        book.receive(message, at(2, now));
        CHECK(counts(shared).repeated == 1);
        CHECK(counts(shared).wrongly_repeated == 0);
    }
}

TEST_CASE_FIXTURE(Pages, "kill: a message that may expire is not lost, and must not come later") {
    const auto message = acknowledged(mixed, {.lifetime = 2s});
    CHECK(book.missing() == 0);
    CHECK(keeps(book));
    now += 2s + outdated_after;
    SUBCASE("in time") {
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    now += 100ms;
    SUBCASE("too late") {
        receive(message);
        CHECK(counts(mixed).outdated == 1);
        CHECK_FALSE(keeps(book));
        CHECK(only_fault() ==
              "outdated: mixed message 1 of publisher 3 to receiver 5 came after 3.1 s and was to "
              "live for 2 s");
    }
    SUBCASE("its delivery had begun before") {
        auto again = arrival();
        again.dup = true;
        book.receive(message, again);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("the clock was put back") {
        book.step_clock(-1h, now);
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("the clock was put forward") {
        book.step_clock(1h, now);
        receive(message);
        CHECK(counts(mixed).outdated == 1);
    }
    SUBCASE("this program stood still, so it may have come before") {
        book.stall(200ms, now);
        receive(message);
        CHECK(counts(mixed).outdated == 0);
    }
    SUBCASE("this program stood still, but not for so long") {
        book.stall(50ms, now);
        receive(message);
        CHECK(counts(mixed).outdated == 1);
    }
}

TEST_CASE_FIXTURE(Pages, "kill: a message that may expire has its order once") {
    const auto first = book.send(mixed, now, {.lifetime = 2s});
    SUBCASE("it was sent again: the first copy may have expired") {
        book.send_again(first);
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
        const auto lasting = book.send(mixed, now, {.lifetime = 24h});
        book.send_again(lasting);
        receive(acknowledged(mixed));
        receive(lasting);
        CHECK(counts(mixed).out_of_order == 1);
    }
}

TEST_CASE_FIXTURE(Pages, "kill: a message that outlives the run is lost if it never comes") {
    acknowledged(mixed, {.lifetime = 24h});
    CHECK(book.missing() == 1);
}

TEST_CASE_FIXTURE(Pages, "kill: only a clock that was put forward makes a message early") {
    const auto excused = acknowledged(delayed, {.delay = 5s});
    const auto early = acknowledged(delayed, {.delay = 5s});
    now += 1s;
    book.step_clock(-1h, now);
    receive(early);
    CHECK(counts(delayed).early == 1);
    book.step_clock(1h, now);
    receive(excused);
    CHECK(counts(delayed).early == 1);
}

TEST_CASE_FIXTURE(Pages, "kill: a session that is gone is a fault") {
    book.lose_session("receiver 5", now);
    CHECK(book.sessions_lost() == 1);
    CHECK_FALSE(keeps(book));
    CHECK(only_fault() == "session lost: receiver 5");
}

TEST_CASE_FIXTURE(Pages, "kill: each promise has a check, which says how often it was broken") {
    using Outcome = pulsegate::load::CheckResult::Outcome;
    const auto outcome = [this](std::string_view name) {
        const auto checks = checks_of(book);
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

TEST_CASE_FIXTURE(Pages, "kill: words of the broker are told in printable characters") {
    book.note_fault("to x on \x1b[2J\xff: not what was sent", now);
    CHECK(only_fault() == "breach: to x on ?[2J?: not what was sent");
}

TEST_CASE("kill: a payload names its message, and others name none") {
    constexpr std::uint64_t run = 0x19b0c;
    for (const Kind kind : all_kinds) {
        const Message message{{kind, 12, 65535}, 4'000'000'000};
        const auto payload = payload_of(message, run);
        CHECK(read_payload(payload, run) == message);
        CHECK_FALSE(read_payload(payload, run + 1));
        CHECK_FALSE(read_payload(payload + ".", run));
        for (const std::size_t at : {std::size_t{0}, std::size_t{31}, payload.size() - 1}) {
            auto changed = payload;
            changed[at] ^= 1;
            CHECK_FALSE(read_payload(changed, run));
            CHECK_FALSE(read_payload(payload.substr(0, at), run));
        }
    }
    CHECK_FALSE(read_payload("", run));
}
