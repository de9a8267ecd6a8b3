#include "server/base/log.h"

#include <doctest/doctest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <memory>
#include <string>

#include "server/base/log_format.h"
#include "server/session/terms/logged_client.h"

using namespace pulsegate;

TEST_CASE("text from the network stands in quotes, and can neither end them nor the line") {
    CHECK(fmt::format("{}", in_quotes("alice")) == "'alice'");
    CHECK(fmt::format("{}", in_quotes("")) == "''");
    CHECK(fmt::format("{}", in_quotes("it's")) == "'it\\x27s'");
    CHECK(fmt::format("{}", in_quotes("a\\b")) == "'a\\x5cb'");
    CHECK(fmt::format("{}", in_quotes("a\nb\x7F")) == "'a\\x0ab\\x7f'");
    CHECK(fmt::format("{}", in_quotes("\xC3\xA9")) == "'\xC3\xA9'");
}

TEST_CASE("characters that control terminals, break lines or reverse text are escaped") {
    const auto shown = [](std::string_view text) { return fmt::format("{}", in_quotes(text)); };
    CHECK(shown("a\u0085b\u009B31m") == "'a\\u0085b\\u009b31m'");
    CHECK(shown("a\u2028b\u2029") == "'a\\u2028b\\u2029'");
    CHECK(shown("\u200E\u200F") == "'\\u200e\\u200f'");
    CHECK(shown("\u202Amoc.live\u202E") == "'\\u202amoc.live\\u202e'");
    CHECK(shown("\u2066\u2069") == "'\\u2066\\u2069'");
    // Joiners are part of words and emoji.
    CHECK(shown("\u200D\u3042 \U0001F600") == "'\u200D\u3042 \U0001F600'");
    CHECK(shown("a\xFF\xC3") == "'a\\xff\\xc3'");
    CHECK(shown(std::string_view("\0", 1)) == "'\\x00'");
}

TEST_CASE("long text is cut before a letter that does not fit") {
    const std::string first(63, 'a');
    std::string text = first;
    text.append("\u00E9");
    CHECK(fmt::format("{}", in_quotes(text)) == fmt::format("'{}'... (65 bytes)", first));
}

TEST_CASE("long text is cut, and its length is told") {
    CHECK(fmt::format("{}", in_quotes(std::string(64, 'a'))) == "'" + std::string(64, 'a') + "'");
    CHECK(fmt::format("{}", in_quotes(std::string(65, 'a'))) ==
          "'" + std::string(64, 'a') + "'... (65 bytes)");
}

TEST_CASE("lines that peers provoke have room for 50 at once, and 1,000 a minute after that") {
    LineBudget budget;
    Millis now = 1'000'000;
    const auto lines = [&](int tries) {
        int logged = 0;
        for (int i = 0; i < tries; ++i) logged += budget.take(now);
        return logged;
    };
    CHECK(lines(1000) == 50);
    int in_a_minute = 0;
    for (int i = 0; i < 600; ++i) {
        now += 100;
        in_a_minute += lines(100);
    }
    CHECK(in_a_minute == 1000);
    now += 60'000;  // nothing happens for a while
    CHECK(lines(1000) == 50);
}

TEST_CASE("how many lines had no room is said, but not all the time") {
    LineBudget budget;
    Millis now = 1'000'000;
    for (int i = 0; i < 150; ++i) (void)budget.take(now);
    CHECK(budget.suppressed(now) == 0);  // it has only just begun
    CHECK(budget.suppressed(now + 1000) == 100);
    CHECK(budget.suppressed(now + 1000) == 0);
    now += 2000;
    for (int i = 0; i < 100; ++i) (void)budget.take(now);
    CHECK(budget.suppressed(now + 1000) == 0);
    const auto later = budget.suppressed(now + 10'000);
    CHECK(later > 50);
    CHECK(later < 100);
}

namespace {

/// A message as it is written in that format, with the fields of this line.
std::string written(LogFormat format, const std::string& message,
                    spdlog::level::level_enum level = spdlog::level::warn) {
    spdlog::memory_buf_t line;
    log_formatter(format)->format(spdlog::details::log_msg("pulsegate", level, message), line);
    return {line.data(), line.size()};
}

boost::json::object as_object(const std::string& line) {
    return boost::json::parse(line).as_object();
}

}  // namespace

TEST_CASE("a line of text has its time, its level and the message") {
    const auto line = written(LogFormat::text, "ready");
    CHECK(line.ends_with(" warning ready"));
    CHECK(line.substr(4, 1) == "-");
    CHECK(line.substr(10, 1) == "T");
}

TEST_CASE("a line of JSON is an object with the same, and with the fields that it has") {
    auto plain = as_object(written(LogFormat::json, "ready", spdlog::level::info));
    CHECK(plain.size() == 3);
    CHECK(plain.at("level") == "info");
    CHECK(plain.at("message") == "ready");
    const auto time = std::string(plain.at("time").as_string());
    CHECK(written(LogFormat::text, "ready").substr(0, 11) == time.substr(0, 11));

    const LineWithFields line({.client = "phone", .user = "bob", .address = "", .reason = "spam"});
    auto full = as_object(written(LogFormat::json, "gone"));
    CHECK(full.size() == 6);
    CHECK(full.at("client") == "phone");
    CHECK(full.at("user") == "bob");
    CHECK(full.at("reason") == "spam");
}

TEST_CASE("a line of JSON is one valid line for any message and names") {
    const LineWithFields line(
        {.client = "a\nb\"c\\", .user = "x\xFFy", .address = "", .reason = ""});
    const auto text = written(LogFormat::json, "quote \" tab \t bad \xC3");
    CHECK(text.find('\n') == std::string::npos);
    const auto object = as_object(text);
    CHECK(object.at("client") == "a\nb\"c\\");
    CHECK(object.at("user") == "x\uFFFDy");
    CHECK(object.at("message") == "quote \" tab \t bad \uFFFD");
}

TEST_CASE("a name of many bytes is cut in a line of JSON") {
    const LineWithFields line(
        {.client = std::string(5000, 'c'), .user = "", .address = "", .reason = ""});
    const auto client = as_object(written(LogFormat::json, "x")).at("client").as_string();
    CHECK(client.size() == 1024 + std::string("…").size());
}

TEST_CASE("the fields of a line are those of its arguments, and end with it") {
    LogFields fields;
    LoggedClient{nullptr, "phone", "bob"}.tell(fields);
    LoggedReason{"too slow"}.tell(fields);
    CHECK(fields.client == "phone");
    CHECK(fields.user == "bob");
    CHECK(fields.address.empty());
    CHECK(fields.reason == "too slow");
    {
        const LineWithFields line(fields);
        REQUIRE(fields_of_line());
        CHECK(fields_of_line()->user == "bob");
    }
    CHECK(fields_of_line() == nullptr);
}
