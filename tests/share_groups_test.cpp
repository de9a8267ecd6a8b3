#include "server/session/delivery/share_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace pulsegate;

namespace {

using Change = GroupMembership::Change;

class Groups {
public:
    void tell(Change change, SessionId member, const std::string& share = "$share/g/x/+") {
        groups_.apply({change, share, member});
    }

    /// The member with the turn for a message to each group, one after the other.
    std::vector<SessionId> turns(int messages, const std::string& topic = "x/1") {
        std::vector<SessionId> turns;
        for (int i = 0; i < messages; ++i)
            groups_.match(std::string_view(topic), [&](const ShareGroups::Choice& choice) {
                turns.push_back(choice.member);
            });
        return turns;
    }

    Interest interest;

private:
    ShareGroups groups_{interest};
};

using Members = std::vector<SessionId>;

}  // namespace

TEST_CASE("members of a group take turns") {
    Groups groups;
    for (const SessionId member : {1, 2, 3}) groups.tell(Change::joins, member);
    CHECK(groups.turns(6) == Members{1, 2, 3, 1, 2, 3});
    CHECK(groups.turns(2, "y").empty());
}

TEST_CASE("a disconnected member is skipped, unless all are disconnected") {
    Groups groups;
    for (const SessionId member : {1, 2, 3}) groups.tell(Change::joins, member);
    groups.tell(Change::goes_away, 2);
    CHECK(groups.turns(4) == Members{1, 3, 1, 3});
    groups.tell(Change::goes_away, 1);
    groups.tell(Change::goes_away, 3);
    auto turns = groups.turns(3);
    std::sort(turns.begin(), turns.end());
    CHECK(turns == Members{1, 2, 3});
    groups.tell(Change::comes_back, 2);
    CHECK(groups.turns(2) == Members{2, 2});
}

TEST_CASE("a member that leaves does not change the next turn") {
    for (const SessionId leaver : {1, 2}) {
        Groups groups;
        for (const SessionId member : {1, 2, 3, 4}) groups.tell(Change::joins, member);
        CHECK(groups.turns(2) == Members{1, 2});
        groups.tell(Change::leaves, leaver);
        auto turns = groups.turns(2);
        std::sort(turns.begin(), turns.end());
        CHECK(turns == Members{3, 4});
    }
    Groups groups;
    for (const SessionId member : {1, 2, 3}) groups.tell(Change::joins, member);
    CHECK(groups.turns(1) == Members{1});
    groups.tell(Change::leaves, 2);
    CHECK(groups.turns(2) == Members{3, 1});
    groups.tell(Change::leaves, 3);
    CHECK(groups.turns(2) == Members{1, 1});
}

TEST_CASE("each group gets a message of its own, and leaves no trace when the last one goes") {
    Groups groups;
    groups.tell(Change::joins, 1);
    groups.tell(Change::joins, 1, "$share/h/x/#");
    groups.tell(Change::joins, 2, "$share/h/x/#");
    CHECK(groups.turns(2).size() == 4);
    CHECK(groups.interest.may_match(std::string_view("x/1")));
    groups.tell(Change::leaves, 1);
    groups.tell(Change::leaves, 1, "$share/h/x/#");
    CHECK(groups.turns(2) == Members{2, 2});
    groups.tell(Change::leaves, 2, "$share/h/x/#");
    groups.tell(Change::leaves, 2, "$share/h/x/#");
    CHECK(groups.turns(1).empty());
    CHECK_FALSE(groups.interest.may_match(std::string_view("x/1")));
}

TEST_CASE("a member that joins again has the new options and no second turn") {
    Interest interest;
    ShareGroups groups(interest);
    SubscribeOptions options;
    options.qos = QoS::exactly_once;
    groups.apply({Change::joins, "$share/g/x", 1, {}, 7});
    groups.apply({Change::joins, "$share/g/x", 2, {}, 0});
    groups.apply({Change::joins, "$share/g/x", 1, options, 8});
    const auto first = groups.choose("$share/g/x");
    REQUIRE(first);
    CHECK(first->member == 1);
    CHECK(first->options.qos == QoS::exactly_once);
    CHECK(first->identifier == 8);
    CHECK(*first->share == "$share/g/x");
    CHECK(groups.choose("$share/g/x")->member == 2);
    CHECK(groups.choose("$share/g/x")->member == 1);
    CHECK_FALSE(groups.choose("$share/other/x"));
}
