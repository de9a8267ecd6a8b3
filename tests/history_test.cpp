// What happened last to a user, in a fixed amount of memory.
#include "server/session/users/history.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "server/session/users/history_passage.h"

using namespace pulsegate;

namespace {

struct Told {
    HistoryKind kind;
    WallMillis time;
    std::uint32_t count;
    Millis lasted;
    std::string client;
    std::string address;
    std::string why;

    bool operator==(const Told&) const = default;
};

std::vector<Told> told(const History& history, const std::string& user) {
    std::vector<Told> all;
    history.visit(user, [&](const HistoryEvent& each) {
        all.push_back({each.kind, each.time, each.count, each.lasted, std::string(each.client),
                       std::string(each.address), std::string(each.why)});
    });
    std::ranges::sort(all, {}, &Told::time);
    return all;
}

HistoryEvent login(WallMillis time, std::string_view client = "phone") {
    return {.kind = HistoryKind::login, .time = time, .client = client, .address = "10.0.0.7:1"};
}

Address at(const char* text) { return *Address::parse(text); }

constexpr std::size_t one_block = HistoryBlocks::block_bytes;

}  // namespace

TEST_CASE("a history tells what happened to a user, and to nobody else") {
    Tracer tracer;
    History history(64 * one_block, tracer);
    history.add("ann", login(1));
    history.add("ann", {.kind = HistoryKind::ended,
                        .time = 2,
                        .silence = 90'000,
                        .cause = Cause::timeout,
                        .client = "phone",
                        .address = "10.0.0.7:1",
                        .listener = "mqtt://0.0.0.0:1883",
                        .why = "silent too long"});
    history.add("bob", login(3));
    int seen = 0;
    history.visit("ann", [&](const HistoryEvent& each) {
        if (++seen != 2) return;
        CHECK(each.kind == HistoryKind::ended);
        CHECK(each.cause == Cause::timeout);
        CHECK(each.silence == 90'000);
        CHECK(each.listener == "mqtt://0.0.0.0:1883");
        CHECK(each.why == "silent too long");
    });
    CHECK(seen == 2);
    CHECK(told(history, "bob").size() == 1);
    CHECK(told(history, "eve").empty());
    history.forget("ann");
    CHECK(told(history, "ann").empty());
    CHECK(told(history, "bob").size() == 1);
}

TEST_CASE("repeated events are one event with a count, except logins") {
    Tracer tracer;
    History history(64 * one_block, tracer);
    for (WallMillis time : {100, 200, 450})
        history.add("ann",
                    {.kind = HistoryKind::dropped, .time = time, .count = 10, .why = "full"});
    history.add("ann", {.kind = HistoryKind::dropped, .time = 500, .count = 1, .why = "expired"});
    const auto all = told(history, "ann");
    REQUIRE(all.size() == 2);
    CHECK(all[0] == Told{HistoryKind::dropped, 450, 30, 350, "", "", "full"});
    CHECK(all[1] == Told{HistoryKind::dropped, 500, 1, 0, "", "", "expired"});
    history.add("bob", login(1));
    history.add("bob", login(2));
    CHECK(told(history, "bob").size() == 2);
}

TEST_CASE("long texts are cut between characters, and a history of 0 bytes keeps nothing") {
    Tracer tracer;
    History history(4 * one_block, tracer);
    const std::string umlauts = [] {
        std::string text = "x";
        for (int i = 0; i < 1000; ++i) text += "\u00E4";
        return text;
    }();
    history.add("ann",
                {.kind = HistoryKind::refused, .time = 1, .client = umlauts, .why = umlauts});
    const auto all = told(history, "ann");
    REQUIRE(all.size() == 1);
    CHECK(all[0].client.size() == 127);
    CHECK(all[0].why.size() == 199);
    CHECK(umlauts.starts_with(all[0].client));
    History off(0, tracer);
    off.add("ann", login(1));
    off.add_refused("ann", at("10.0.0.1"), login(1));
    CHECK_FALSE(off.is_on());
    CHECK(told(off, "ann").empty());
}

TEST_CASE("a user with very many events loses only their own") {
    Tracer tracer;
    History history(one_block, tracer);  // all users share a block
    for (int i = 0; i < 8; ++i) history.add(fmt::format("calm{}", i), login(i));
    for (int i = 0; i < 10'000; ++i) history.add("busy", login(100 + i));
    for (int i = 0; i < 8; ++i) CHECK(told(history, fmt::format("calm{}", i)).size() == 1);
    const auto busy = told(history, "busy");
    CHECK(busy.size() > 10);
    CHECK(busy.back().time == 10'099);
    CHECK(busy.front().time == 10'099 - static_cast<WallMillis>(busy.size()) + 1);
}

TEST_CASE("an address that guesses names pushes out neither users' events nor others' refusals") {
    Tracer tracer;
    History history(one_block, tracer);
    history.add("ann", login(1));
    const auto refused = [](WallMillis time) {
        return HistoryEvent{.kind = HistoryKind::refused,
                            .time = time,
                            .reason = Reason::not_authorized,
                            .address = "10.0.0.7:1",
                            .why = "wrong"};
    };
    history.add_refused("ann", at("10.0.0.7"), refused(2));
    for (int i = 0; i < 10'000; ++i)
        history.add_refused(fmt::format("guess{}", i), at("192.0.2.1"), refused(3 + i));
    for (int i = 0; i < 10'000; ++i)
        history.add_refused("ann", at("192.0.2.1"), refused(20'000 + i));
    const auto all = told(history, "ann");
    REQUIRE(all.size() == 3);
    CHECK(all[0].time == 1);
    CHECK(all[1] == Told{HistoryKind::refused, 2, 1, 0, "", "10.0.0.7:1", "wrong"});
    CHECK(all[2].count == 10'000);
}

TEST_CASE(
    "a block does the same as a list of events that drops the oldest event of the largest user") {
    struct Model {
        std::string user;
        WallMillis time;
        std::size_t bytes;
    };
    std::mt19937 random(5);
    Tracer tracer;
    History history(one_block, tracer);
    std::deque<Model> model;
    const std::size_t head = 40;
    for (int i = 0; i < 3000; ++i) {
        const auto user = fmt::format("u{}", std::min(random() % 9, random() % 9));
        const std::string client(random() % 120, 'c');
        history.add(user, login(i, client));
        const std::size_t bytes = head + client.size() + 10;
        model.push_back({user, i, bytes});
        const auto sum = [&](const std::string& of) {
            std::size_t all = 0;
            for (const auto& each : model)
                if (of.empty() || each.user == of) all += each.bytes;
            return all;
        };
        const std::size_t most_bytes = one_block - 2;
        const bool is_full = sum("") > most_bytes;
        while (is_full && sum("") > most_bytes / 4 * 3) {
            std::size_t most = 0;
            auto goes = model.begin();
            for (auto each = model.begin(); each + 1 != model.end(); ++each)
                if (sum(each->user) > most) {
                    most = sum(each->user);
                    goes = each;
                }
            model.erase(goes);
        }
        std::map<std::string, std::vector<WallMillis>> expected;
        for (const auto& each : model) expected[each.user].push_back(each.time);
        for (int of = 0; of < 9; ++of) {
            const auto name = fmt::format("u{}", of);
            std::vector<WallMillis> times;
            for (const auto& each : told(history, name)) times.push_back(each.time);
            REQUIRE(times == expected[name]);
        }
    }
}

TEST_CASE("a history goes on in another process, refused logins and all, with its shares") {
    Tracer tracer;
    History before(64 * one_block, tracer);
    const HistoryEvent refused{.kind = HistoryKind::refused,
                               .time = 5,
                               .reason = Reason::banned,
                               .version = Version::v5_0,
                               .client = "phone",
                               .address = "192.0.2.1:9",
                               .listener = "mqtt://0.0.0.0:1883",
                               .why = "banned"};
    for (int i = 0; i < 1500; ++i) before.add(fmt::format("user{}", i), login(i));
    before.add("ann", login(1));
    before.add("ann", {.kind = HistoryKind::ended,
                       .time = 2,
                       .silence = 90'000,
                       .cause = Cause::timeout,
                       .reason = Reason::keep_alive_timeout});
    for (int i = 0; i < 3; ++i) before.add_refused("ann", at("192.0.2.1"), refused);
    before.add_refused("nobody", at("192.0.2.1"), refused);
    // Of another size, and on the way through bytes.
    History after(128 * one_block, tracer);
    std::size_t records = 0;
    std::size_t events = 0;
    describe(before, 7, [&](const HistoryRecord& record) {
        ++records;
        events += record.events.size();
        CHECK(record.shard == 7);
        CHECK(record.events.size() <= events_of_record);
        adopt(after, *decode_history(encode(record)));
    });
    CHECK(records > 1);
    std::size_t kept = 0;
    for (int i = 0; i < 1500; ++i) {
        const auto user = fmt::format("user{}", i);
        kept += told(before, user).size();
        CHECK(told(after, user) == told(before, user));
    }
    CHECK(kept + 4 == events);
    CHECK(told(after, "ann") == told(before, "ann"));
    CHECK(told(after, "nobody") == told(before, "nobody"));
    REQUIRE(told(after, "nobody").size() == 1);
    after.visit("nobody", [&](const HistoryEvent& each) {
        CHECK(each.reason == Reason::banned);
        CHECK(each.version == Version::v5_0);
        CHECK(each.listener == refused.listener);
    });
    // The next refusal is counted in the last one, so the account is the same.
    after.add_refused("ann", at("192.0.2.1"), refused);
    REQUIRE(told(after, "ann").size() == 3);
    CHECK(told(after, "ann").back().count == 4);
    after.forget("ann");
    CHECK(told(after, "ann").empty());
}

TEST_CASE("events of a later version that this one does not know are left out of a history") {
    Tracer tracer;
    History history(4 * one_block, tracer);
    history.add("ann", login(1));
    HistoryRecord record;
    describe(history, 0, [&](const HistoryRecord& each) { record = each; });
    REQUIRE(record.events.size() == 1);
    record.events.resize(4, record.events.front());
    record.events[1].kind = 200;
    record.events[2].cause = 200;
    History other(4 * one_block, tracer);
    adopt(other, record);
    CHECK(told(other, "ann").size() == 2);
    History off(0, tracer);
    adopt(off, record);
    CHECK(told(off, "ann").empty());
}
