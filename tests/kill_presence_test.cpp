#include <doctest/doctest.h>

#include "loadgen/kill/presence_book.h"
#include "loadgen/kill/presence_change.h"

using namespace pulsegate::kill;
using namespace std::chrono_literals;

namespace {

/// Alice has been online for long, and a watcher has been there since then.
struct Watched {
    PresenceBook book;
    Time now{1h};

    Watched() {
        book.change("alice", true, now);
        book.begin_watching("watcher", true, now);
        now += truth_after;
    }
    void tell(bool online, std::uint64_t version) {
        book.tell("watcher", "alice", {online, version}, now);
    }
    std::string only_fault() const {
        REQUIRE(book.faults().size() == 1);
        return book.faults().front().what;
    }
};

}  // namespace

TEST_CASE_FIXTURE(Watched, "kill: presence is kept if versions grow and the last word is true") {
    tell(false, 1);
    tell(true, 2);
    tell(true, 2);
    book.compare(now);
    CHECK(book.told() == 3);
    CHECK(book.kept());
}

TEST_CASE_FIXTURE(Watched, "kill: a version that falls is a fault") {
    tell(true, 5);
    tell(true, 4);
    CHECK(book.fallen() == 1);
    CHECK_FALSE(book.kept());
    CHECK(only_fault() ==
          "presence: version fell: watcher was told that alice is online at 4, after 5");
    tell(true, 5);  // the highest counts
    CHECK(book.fallen() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: a version falls for one watcher, even if it begins anew") {
    tell(true, 5);
    book.begin_watching("other", true, now);
    book.tell("other", "alice", {true, 4}, now);
    CHECK(book.fallen() == 0);
    book.begin_watching("watcher", true, now);
    tell(true, 4);
    CHECK(book.fallen() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: a version that is repeated with another state is a fault") {
    tell(true, 5);
    tell(false, 5);
    CHECK(book.fallen() == 1);
    CHECK(only_fault() ==
          "presence: version repeated: watcher was told that alice is online and offline at 5");
}

TEST_CASE_FIXTURE(Watched, "kill: a state that stays untrue is a fault, once") {
    tell(true, 1);
    book.change("alice", false, now);
    now += truth_after - 1ms;
    book.compare(now);
    CHECK(book.kept());
    now += 1ms;
    book.compare(now);
    book.compare(now + 1s);
    CHECK(book.untrue() == 1);
    CHECK_FALSE(book.kept());
    CHECK(only_fault() ==
          "presence: untrue: watcher takes alice for online, who has been offline for 3 s");
    book.change("alice", true, now);
    book.change("alice", false, now);
    book.compare(now + truth_after);
    CHECK(book.untrue() == 2);
}

TEST_CASE_FIXTURE(Watched, "kill: a watcher that was told nothing takes everybody for offline") {
    book.compare(now);
    CHECK(book.untrue() == 1);
    CHECK(only_fault() ==
          "presence: untrue: watcher takes alice for offline, who has been online for 3 s");
}

TEST_CASE_FIXTURE(Watched, "kill: one that begins anew forgets, and one that goes on does not") {
    tell(true, 1);
    book.begin_watching("watcher", false, now);
    book.compare(now + truth_after);
    CHECK(book.kept());
    book.begin_watching("watcher", true, now);
    book.compare(now + truth_after);
    CHECK(book.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: nothing is expected of those who are away or have just come") {
    book.end_watching("watcher");
    book.compare(now);
    book.begin_watching("watcher", false, now);
    book.compare(now + truth_after - 1ms);
    CHECK(book.kept());
    book.compare(now + truth_after);
    CHECK(book.untrue() == 1);
}

TEST_CASE_FIXTURE(Watched, "kill: during a login both states are true") {
    book.change("alice", std::nullopt, now);
    book.compare(now + truth_after);
    CHECK(book.kept());
}

TEST_CASE("kill: a change of presence is read from JSON, and from nothing else") {
    const auto change =
        read_presence_change(R"({"user":"bob","state":"online","version":17,"devices":[]})");
    REQUIRE(change);
    CHECK(change->user == "bob");
    CHECK(change->state == PresenceBook::State{true, 17});
    for (const auto* wrong :
         {"", "[]", R"({"user":"bob"})", R"({"user":1,"state":"x","version":1})",
          R"({"user":"bob","state":"online","version":-1})"})
        CHECK_FALSE(read_presence_change(wrong));
}
