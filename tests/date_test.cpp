#include "server/base/text/date.h"

#include <doctest/doctest.h>

using namespace pulsegate;

TEST_CASE("a date of RFC 3339 is read as it is written") {
    CHECK(parse_rfc3339("1970-01-01T00:00:00Z") == 0);
    CHECK(parse_rfc3339("2026-11-23T13:20:00Z") == 1795440000000);
    CHECK(parse_rfc3339("2026-11-23t13:20:00.5z") == 1795440000500);
    CHECK(parse_rfc3339("2026-11-23 13:20:00.123456Z") == 1795440000123);
    CHECK(parse_rfc3339("2026-11-23T14:20:00+01:00") == 1795440000000);
    CHECK(parse_rfc3339("2026-11-23T07:50:00-05:30") == 1795440000000);
    CHECK(parse_rfc3339("2024-02-29T00:00:00Z") == 1709164800000);
    const WallMillis time = 1795440000042;
    CHECK(parse_rfc3339(rfc3339(time)) == time);
}

TEST_CASE("a date is written as HTTP demands") {
    CHECK(http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT");
    CHECK(http_date(784'111'777'000) == "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK(http_date(784'111'777'999) == "Sun, 06 Nov 1994 08:49:37 GMT");
    CHECK(http_date(1'709'251'199'000) == "Thu, 29 Feb 2024 23:59:59 GMT");
}

TEST_CASE("a date of HTTP is read as it is written") {
    for (const WallMillis when :
         {WallMillis{0}, WallMillis{784'111'777'000}, WallMillis{1'709'251'199'000}}) {
        CAPTURE(when);
        CHECK(parse_http_date(http_date(when)) == when);
    }
    for (const char* text : {"", "120", "Sunday, 06-Nov-94 08:49:37 GMT",
                             "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37",
                             "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 GMT ",
                             "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
                             "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
                             "Sun, 06 Nov 1994 24:49:37 GMT", "06 Nov 1994 08:49:37 GMT"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_http_date(text));
    }
}

TEST_CASE("a text that is no date of RFC 3339 is refused") {
    for (const char* text :
         {"", "2026", "2026-11-23", "2026-11-23T13:20:00", "2026-11-23T13:20Z",
          "2026-11-23T13:20:00.Z", "2026-11-23T24:00:00Z", "2026-11-23T13:60:00Z",
          "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-31T00:00:00Z",
          "2026-11-23T13:20:00Zx", "2026-11-23T13:20:00+1:00", "2026-11-23T13:20:00*01:00",
          "26-11-23T13:20:00Z", "2026-11-2aT13:20:00Z", "1764000000"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_rfc3339(text));
    }
}
