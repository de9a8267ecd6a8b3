#include "server/http/serving/query.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "server/http/serving/bad_request.h"

using namespace pulsegate;

namespace {

std::string mistake_in(std::string_view encoded, std::string_view known) {
    try {
        const Query query(encoded, known);
    } catch (const BadRequest& wrong) {
        return wrong.what();
    }
    return {};
}

}  // namespace

TEST_CASE("the parameters of a request are decoded") {
    const Query query("user=a%2Fb&limit=7&name=a+b=c", "user name limit");
    CHECK(query.text("user") == "a/b");
    CHECK(query.text("name") == "a+b=c");
    CHECK(query.number("limit", 1, 10) == 7);
    CHECK(query.has("limit"));
    CHECK_FALSE(query.has("after"));
    CHECK_FALSE(query.text("after"));
    CHECK_THROWS_AS(static_cast<void>(query.number("limit", 1, 6)), BadRequest);
    CHECK_THROWS_AS(static_cast<void>(query.number("name", 1, 6)), BadRequest);
    CHECK_FALSE(Query("", "user").has("user"));
}

TEST_CASE("a list of names may have commas inside of them") {
    CHECK(Query("ids=a,b%2Cc,d", "ids").list("ids") == std::vector<std::string>{"a", "b,c", "d"});
    CHECK(Query("ids=a", "ids").list("ids") == std::vector<std::string>{"a"});
    CHECK(Query("", "ids").list("ids").empty());
}

TEST_CASE("a parameter that is unknown, given twice, empty or badly encoded is a mistake") {
    for (const char* wrong : {"usre=a", "User=a", "user=a&user=a", "user=", "user", "=", "user=%E9",
                              "user=%", "user=a%2", "user=%00", "user=a&", "user=a&&name=b"}) {
        CAPTURE(wrong);
        const bool is_wrong = !mistake_in(wrong, "user name").empty();
        CHECK(is_wrong == (std::string_view(wrong) != "user=a&"));
    }
    CHECK(mistake_in("x=1", "") == "'x': this request takes no parameters");
    CHECK(mistake_in("x=1", "user name") == "'x': this request takes only user name");
    CHECK(mistake_in("user=a", "user name").empty());
}
