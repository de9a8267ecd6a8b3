#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "loadgen/truth/flow_total.h"
#include "loadgen/truth/message.h"
#include "loadgen/truth/numbers.h"
#include "loadgen/truth/read_proof.h"
#include "loadgen/truth/received_flow.h"

namespace pulsegate::load {

namespace {

using Arrival = ReceivedFlow::Arrival;
using Cause = Attendance::Cause;

Message some_message() {
    return {.run = 0x0123456789abcdef,
            .planned = Time(Duration(1'234'567'890'123)),
            .sender = 17,
            .receiver = 4'000'000'000,
            .slot = 3,
            .sequence = 99};
}

FlowTotal total_of(std::uint32_t sent) { return {.sender = 1, .slot = 0, .sent = sent}; }

Attendance always_there() {
    Attendance receiver;
    receiver.comes();
    receiver.begin();
    return receiver;
}

/// What a server may do to a message, and what must be said of it.
struct Model {
    explicit Model(std::uint32_t seed) : random(seed) {
        receiver.comes();
        receiver.begin();
        flow = ReceivedFlow(receiver.stay_at_begin());
    }

    bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

    std::mt19937 random;
    Attendance receiver;
    ReceivedFlow flow;
    FlowTotal total = total_of(0);
};

/// A message each ten seconds.
FlowTotal total_of_ten(Time begin) {
    FlowTotal total = total_of(10);
    for (std::uint32_t number = 0; number < 10; ++number)
        total.times.add(number, begin + std::chrono::seconds(10) * number);
    return total;
}

}  // namespace

TEST_CASE("a message of the load generator is read as it was written") {
    for (const std::size_t size : {32, 33, 39, 40, 64, 1000}) {
        Buffer payload;
        write_message(some_message(), size, payload);
        CHECK(payload.size() == size);
        CHECK(read_message(as_bytes(payload)) == some_message());
        CHECK(is_whole(some_message(), as_bytes(payload)));
    }
}

TEST_CASE("a message with any bit changed is damaged") {
    Buffer payload;
    write_message(some_message(), 45, payload);
    for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
        Buffer damaged = payload;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        const auto read = read_message(as_bytes(damaged));
        CAPTURE(bit);
        if (bit < Message::size * 8)
            CHECK(!read);
        else
            CHECK((read == some_message() && !is_whole(*read, as_bytes(damaged))));
    }
    CHECK(!read_message(as_bytes(payload.substr(0, 31))));
}

TEST_CASE("sets of numbers agree with a set of each number") {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        Numbers numbers;
        std::set<std::uint32_t> model;
        for (int count = 0; count < 30; ++count) {
            const auto from = static_cast<std::uint32_t>(random() % 100);
            const auto to = from + static_cast<std::uint32_t>(random() % 6);
            numbers.add(from, to);
            for (auto number = from; number < to; ++number) model.insert(number);
        }
        for (std::uint32_t from = 0; from < 110; from += 7) {
            const auto expected = std::ranges::count_if(
                model, [&](auto number) { return number >= from && number < from + 13; });
            CHECK(numbers.count_in(from, from + 13) == expected);
        }
        const auto& ranges = numbers.ranges();
        for (std::size_t at = 1; at < ranges.size(); ++at)
            CHECK(ranges[at - 1].to < ranges[at].from);
    }
}

TEST_CASE("totals of flows survive the way to another worker") {
    FlowTotal total = total_of(1000);
    total.in_doubt.add(7, 10);
    total.in_doubt.add(20);
    total.sent_again.add(500, 600);
    total.times.add(0, Time(std::chrono::seconds(7)));
    total.times.add(900, Time(std::chrono::seconds(9)));
    Buffer bytes;
    put(total, bytes);
    put(total_of(5), bytes);

    Bytes in = as_bytes(bytes);
    const auto first = take_flow_total(in);
    REQUIRE(first);
    CHECK(first->sent == 1000);
    CHECK(first->in_doubt.ranges() == total.in_doubt.ranges());
    CHECK(first->sent_again.ranges() == total.sent_again.ranges());
    CHECK(std::ranges::equal(first->times.entries(), total.times.entries()));
    CHECK(take_flow_total(in)->sent == 5);
    CHECK(!take_flow_total(in));
    for (std::size_t size = 0; size < bytes.size() - 19; ++size) {
        Bytes cut = as_bytes(bytes).first(size);
        CHECK(!take_flow_total(cut));
    }
}

TEST_CASE("in-doubt numbers of QoS 0 are those behind the last answered ping") {
    SentFlow flow;
    for (int count = 0; count < 5; ++count) flow.take();
    flow.ping_sent();
    flow.take();
    flow.ping_answered();
    flow.take();
    flow.connection_ended(QoS::at_most_once, false);
    CHECK(flow.in_doubt().ranges() == std::vector<Numbers::Range>{{5, 7}});
    flow.take();
    flow.connection_ended(QoS::at_most_once, false);
    CHECK(flow.in_doubt().ranges() == std::vector<Numbers::Range>{{5, 8}});
}

TEST_CASE(
    "a client that leaves with DISCONNECT has nothing in doubt at QoS 0, but sends QoS 1 again") {
    SentFlow flow;
    for (int count = 0; count < 4; ++count) flow.take();
    SUBCASE("QoS 0") {
        flow.left(QoS::at_most_once, true);
        CHECK(flow.in_doubt().empty());
        CHECK(flow.sent_again().empty());
    }
    SUBCASE("QoS 1") {
        flow.acknowledged(0);
        flow.acknowledged(1);
        flow.left(QoS::at_least_once, true);
        CHECK(flow.sent_again().ranges() == std::vector<Numbers::Range>{{2, 4}});
    }
    SUBCASE("QoS 1, and it never comes back") {
        flow.acknowledged(1);
        flow.left(QoS::at_least_once, true);
        flow.doubt_unacknowledged();
        CHECK(flow.in_doubt().ranges() == std::vector<Numbers::Range>{{2, 4}});
    }
}

TEST_CASE("a kept session sends again what was not acknowledged") {
    SentFlow flow;
    for (int count = 0; count < 4; ++count) flow.take();
    SUBCASE("acknowledged in order") {
        flow.acknowledged(0);
        flow.acknowledged(1);
        flow.connection_ended(QoS::at_least_once, true);
        CHECK(flow.sent_again().ranges() == std::vector<Numbers::Range>{{2, 4}});
    }
    SUBCASE("an acknowledgement is missing") {
        flow.acknowledged(1);
        flow.connection_ended(QoS::at_least_once, true);
        CHECK(flow.sent_again().ranges() == std::vector<Numbers::Range>{{0, 1}, {2, 4}});
    }
    CHECK(flow.in_doubt().empty());
}

TEST_CASE("a client that is always there misses what is lost, and nothing else") {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        Model model(seed);
        std::deque<std::uint32_t> held_back;
        std::uint32_t lost = 0;
        std::uint32_t in_doubt = 0;
        std::uint32_t behind = 0;
        std::uint32_t again = 0;
        std::uint32_t seen_behind = 0;
        std::uint32_t seen_again = 0;
        std::int64_t newest = -1;
        const auto deliver = [&](std::uint32_t number) {
            if (static_cast<std::int64_t>(number) < newest) ++behind;
            newest = std::max(newest, static_cast<std::int64_t>(number));
            const auto arrival = model.flow.arrive(number, QoS::at_least_once, false, 1);
            seen_behind += arrival == Arrival::behind;
            CHECK(arrival != Arrival::again);
            if (model.chance(10)) {
                ++again;
                seen_again +=
                    model.flow.arrive(number, QoS::at_least_once, true, 1) == Arrival::again;
            }
        };
        const auto sent = static_cast<std::uint32_t>(model.random() % 60);
        for (std::uint32_t number = 0; number < sent; ++number) {
            if (model.chance(10)) {
                const bool doubtful = model.chance(50);
                if (doubtful) model.total.in_doubt.add(number);
                ++(doubtful ? in_doubt : lost);
            } else if (model.chance(20)) {
                held_back.push_back(number);
            } else {
                deliver(number);
            }
            if (!held_back.empty() && model.chance(30)) {
                deliver(held_back.front());
                held_back.pop_front();
            }
        }
        for (const auto number : held_back) deliver(number);
        // In doubt, but delivered: it counts as received.
        model.total.sent = sent;
        const auto outcome = model.flow.judge(model.total, model.receiver, model.chance(50));
        CAPTURE(seed);
        CHECK(outcome.lost == lost);
        CHECK(outcome.in_doubt == in_doubt);
        CHECK(outcome.received == sent - lost - in_doubt);
        CHECK(outcome.missed_away + outcome.missed_closed + outcome.excused == 0);
        CHECK(outcome.invented == 0);
        CHECK(seen_behind == behind);
        CHECK(seen_again == again);
    }
}

TEST_CASE("the messages that a client misses are counted by the cause of its absence") {
    for (std::uint32_t seed = 0; seed < 1000; ++seed) {
        Model model(seed);
        const bool kept = model.chance(50);
        const Cause cause =
            std::array{Cause::planned, Cause::closed, Cause::starved}[model.random() % 3];
        std::uint32_t number = 0;
        const auto deliver = [&](int count) {
            for (; count > 0; --count)
                (void)model.flow.arrive(number++, QoS::at_least_once, false, model.receiver.stay());
        };
        deliver(static_cast<int>(model.random() % 3));
        const std::uint32_t missed = static_cast<std::uint32_t>(model.random() % 4);
        model.receiver.goes(cause);
        number += missed;
        const bool comes_back = model.chance(70);
        if (comes_back) {
            model.receiver.comes();
            deliver(static_cast<int>(model.random() % 3));
        }
        model.total.sent = number;
        const auto outcome = model.flow.judge(model.total, model.receiver, kept);
        const bool lost = kept && comes_back;
        CAPTURE(seed);
        CHECK(outcome.lost == (lost ? missed : 0));
        CHECK(outcome.missed_away == (!lost && cause == Cause::planned ? missed : 0));
        CHECK(outcome.missed_closed == (!lost && cause == Cause::closed ? missed : 0));
        CHECK(outcome.excused == (!lost && cause == Cause::starved ? missed : 0));
        CHECK(outcome.received == number - missed);
    }
}

TEST_CASE("a client that was never connected misses nothing by the server's fault") {
    Attendance late;
    late.begin();
    late.comes();
    ReceivedFlow flow(late.stay_at_begin());
    CHECK(flow.arrive(3, QoS::at_least_once, false, late.stay()) == Arrival::first);
    const auto outcome = flow.judge(total_of(5), late, true);
    CHECK(outcome.missed_away == 3);
    CHECK(outcome.lost == 1);  // the last one
}

TEST_CASE("a message that was sent to a client long after its return must arrive") {
    using namespace std::chrono_literals;
    const Time begin{1h};
    FlowTotal total = total_of_ten(begin);
    ReceivedFlow flow(1);
    Attendance receiver = always_there();
    receiver.settles(begin);
    CHECK(flow.arrive(0, QoS::at_least_once, false, 1, receiver.settled()) == Arrival::first);
    receiver.goes(Cause::planned);
    receiver.comes();
    const auto judged = [&] { return flow.judge(total, receiver, false); };
    CHECK(judged().missed_away == 9);  // its subscriptions are not granted
    receiver.settles(begin + 60s);

    SUBCASE("and nothing does") {
        CHECK(judged().lost == 3);
        CHECK(judged().example == 7);
        CHECK(judged().missed_away == 6);
        total.in_doubt.add(8);
        CHECK(judged().lost == 2);
    }
    SUBCASE("and only the last one does") {
        CHECK(flow.arrive(9, QoS::at_least_once, false, 2, receiver.settled()) == Arrival::first);
        CHECK(judged().lost == 2);
        CHECK(judged().missed_away == 6);
        receiver.goes(Cause::planned);
        receiver.comes();
        receiver.settles(begin + 200s);
        CHECK(judged().lost == 2);
    }
    SUBCASE("but it came before the subscriptions were granted again") {
        CHECK(flow.arrive(9, QoS::at_least_once, false, 2) == Arrival::first);
        CHECK(judged().lost == 0);
        CHECK(judged().missed_away == 8);
    }
    SUBCASE("but it is away at the end") {
        receiver.goes(Cause::planned);
        CHECK(judged().lost == 0);
        CHECK(judged().missed_away == 9);
    }
}

TEST_CASE("a message that was sent long after a client's first connection must wait for it") {
    using namespace std::chrono_literals;
    const Time begin{1h};
    FlowTotal total = total_of_ten(begin);
    Attendance receiver;
    receiver.begin();
    receiver.comes();
    receiver.settles(begin + 40s);
    receiver.goes(Cause::planned);
    const ReceivedFlow flow(receiver.stay_at_begin());
    CHECK(flow.judge(total, receiver, true).missed_away == 10);  // it may wait still
    receiver.comes();
    receiver.settles(begin + 80s);
    CHECK(flow.judge(total, receiver, true).lost == 5);
    CHECK(flow.judge(total, receiver, true).missed_away == 5);
    CHECK(flow.judge(total, receiver, false).lost == 1);
}

TEST_CASE("the times of a long flow are few, and never later than the messages were sent") {
    using namespace std::chrono_literals;
    const Time begin{1h};
    SendTimes times;
    CHECK(times.first_after(begin, 3, 9) == 9);
    for (std::uint32_t number = 0; number < 100'000; ++number) {
        times.add(number, begin + 10ms * number);
        REQUIRE(times.entries().size() <= SendTimes::most_entries);
    }
    for (const auto& [number, at] : times.entries()) CHECK(at == begin + 10ms * number);
    for (std::uint32_t second = 0; second < 900; second += 7) {
        const std::uint32_t exact = second * 100 + 1;
        const auto found = times.first_after(begin + 1s * second, 0, 100'000);
        CHECK(found >= exact);
        CHECK(found < exact + 13'000);
    }
    CHECK(times.first_after(begin, 50'000, 60'000) == 50'000);
    CHECK(times.first_after(begin + 1000s, 50'000, 60'000) == 60'000);
}

TEST_CASE("a repetition is allowed on another connection, marked, at QoS 1") {
    ReceivedFlow flow(1);
    CHECK(flow.arrive(0, QoS::at_least_once, false, 1) == Arrival::first);
    CHECK(flow.arrive(1, QoS::at_least_once, false, 1) == Arrival::first);
    CHECK(flow.arrive(1, QoS::at_least_once, true, 1) == Arrival::again);
    CHECK(flow.arrive(0, QoS::at_least_once, true, 2) == Arrival::again_allowed);
    CHECK(flow.arrive(1, QoS::at_least_once, false, 2) == Arrival::again);
    CHECK(flow.arrive(1, QoS::exactly_once, true, 2) == Arrival::again);
    CHECK(flow.arrive(2, QoS::at_least_once, false, 2) == Arrival::first);
    CHECK(flow.arrive(1, QoS::at_least_once, true, 2) == Arrival::again);
}

TEST_CASE("a repetition is a fault if the server had read the acknowledgement") {
    ReceivedFlow flow(1);
    ReadProof proof;
    const auto arrive = [&](std::uint32_t number, bool dup, std::uint32_t stay) {
        return flow.arrive(number, QoS::at_least_once, dup, stay, Time::max(), proof);
    };
    proof.connected(0);
    CHECK(arrive(0, false, 1) == Arrival::first);
    CHECK(arrive(1, false, 1) == Arrival::first);
    proof.asks(7);

    SUBCASE("because it answered a packet that was sent after it") {
        proof.answered(7);
        CHECK(arrive(2, false, 1) == Arrival::first);
        proof.connected(0);
        CHECK(arrive(0, true, 2) == Arrival::again_acknowledged);
        CHECK(arrive(1, true, 2) == Arrival::again_acknowledged);
        CHECK(arrive(2, true, 2) == Arrival::again_allowed);
    }
    SUBCASE("but not if no answer came on that connection") {
        proof.connected(0);
        proof.answered(7);
        CHECK(arrive(1, true, 2) == Arrival::again_allowed);
    }
    SUBCASE("and a proof that never came does not stand in the way of the next one") {
        proof.connected(0);
        CHECK(arrive(2, false, 2) == Arrival::first);
        proof.asks(8);
        proof.answered(8);
        proof.connected(0);
        CHECK(arrive(2, true, 3) == Arrival::again_acknowledged);
    }
    SUBCASE("but not if the answer was to another packet") {
        proof.asks(8);
        proof.answered(8);
        proof.connected(0);
        CHECK(arrive(1, true, 2) == Arrival::again_allowed);
    }
    SUBCASE("but not if the packet was not sent") {
        CHECK(proof.gives_up(7));
        proof.answered(7);
        proof.connected(0);
        CHECK(arrive(1, true, 2) == Arrival::again_allowed);
    }
    SUBCASE("but not if it came after that packet") {
        CHECK(arrive(2, false, 1) == Arrival::first);
        proof.answered(7);
        proof.connected(0);
        CHECK(arrive(2, true, 2) == Arrival::again_allowed);
    }
    SUBCASE("but not if it came behind a later one, after that packet") {
        CHECK(arrive(4, false, 1) == Arrival::first);
        proof.answered(7);
        proof.asks(8);
        proof.answered(8);
        CHECK(arrive(3, false, 1) == Arrival::behind);
        proof.connected(0);
        CHECK(arrive(3, true, 2) == Arrival::again_allowed);
        CHECK(arrive(1, true, 2) == Arrival::again_acknowledged);
    }
    SUBCASE("and its proof is remembered in later connections") {
        proof.answered(7);
        CHECK(arrive(2, false, 1) == Arrival::first);
        proof.connected(0);
        proof.connected(0);
        CHECK(arrive(1, true, 3) == Arrival::again_acknowledged);
        CHECK(arrive(2, true, 3) == Arrival::again_allowed);
    }
    SUBCASE("but not if a crash has lost the acknowledgement, although the next connection ended") {
        proof.answered(7);
        CHECK(arrive(2, false, 1) == Arrival::first);
        proof.connected(1);
        CHECK(arrive(0, true, 2) == Arrival::again_allowed);
        proof.connected(1);
        CHECK(arrive(0, true, 3) == Arrival::again_allowed);
        CHECK(arrive(3, false, 3) == Arrival::first);
        proof.connected(1);
        CHECK(arrive(1, true, 4) == Arrival::again_allowed);
    }
}

TEST_CASE("a proof of what the server has read does not hold over a crash") {
    ReadProof proof;
    proof.connected(3);
    proof.connected(3);
    CHECK(proof.holds(3));
    CHECK(!proof.holds(4));
    proof.connected(4);
    CHECK(!proof.holds(4));
    proof.connected(4);
    CHECK(proof.holds(4));
}

TEST_CASE("only messages that a sender repeats may come again") {
    ReceivedFlow flow(1);
    for (std::uint32_t number = 0; number < 10; ++number)
        CHECK(flow.arrive(number, QoS::at_least_once, false, 1) == Arrival::first);
    for (const std::uint32_t number : {3u, 4u, 7u}) {
        CHECK(flow.arrive(number, QoS::at_least_once, false, 1) == Arrival::again);
        flow.remember_again(number);
    }
    FlowTotal total = total_of(10);
    total.sent_again.add(3, 5);
    CHECK(flow.judge(total, always_there(), false).repeated == 1);
}

TEST_CASE("messages that nobody sent are told from those that were") {
    ReceivedFlow flow(1);
    CHECK(flow.arrive(0, QoS::at_most_once, false, 1) == Arrival::first);
    CHECK(flow.arrive(7, QoS::at_most_once, false, 1) == Arrival::first);
    const auto outcome = flow.judge(total_of(3), always_there(), false);
    CHECK(outcome.received == 1);
    CHECK(outcome.lost == 2);
    CHECK(outcome.invented == 1);
}

}  // namespace pulsegate::load
