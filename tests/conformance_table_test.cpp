#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(PULSEGATE_SOURCE_DIR) / "tests" / "conformance";

/// The statements of one version of the standard, each with its kind.
///
/// A line of a table is `MQTT-3.1.0-1 | test | what it demands, in our own words`; one that begins
/// with # is a comment. The kind is `test` where a test carries the number in its name, `client`
/// where only clients are bound, and `none` where the third field says why no test applies.
std::map<std::string, std::string> statements_of(const std::string& table) {
    std::ifstream in(folder / table);
    REQUIRE_MESSAGE(in.is_open(), "no table ", table);
    static const std::regex row(R"((MQTT-\d+\.\d+\.\d+-\d+) \| (test|client|none) \| \S.*)");
    std::map<std::string, std::string> kinds;
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line.starts_with('#')) continue;
        CAPTURE(line);
        std::smatch fields;
        const bool whole = std::regex_match(line, fields, row);
        CHECK(whole);
        if (!whole) continue;
        const bool new_number = kinds.emplace(fields.str(1), fields.str(2)).second;
        CHECK(new_number);
    }
    CHECK(!kinds.empty());
    return kinds;
}

/// The names of all test cases in the files that begin with `prefix`. A name may be written
/// as several literals in a row.
std::vector<std::string> tests_of(const std::string& prefix) {
    static const std::regex test_case(R"(TEST_CASE\(((?:\s*"(?:[^"\\]|\\.)*")+)\s*[\)*])");
    static const std::regex seam(R"("\s*")");
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".cpp") continue;
        if (!entry.path().filename().string().starts_with(prefix)) continue;
        std::ifstream in(entry.path());
        const std::string source(std::istreambuf_iterator<char>(in), {});
        for (std::sregex_iterator found(source.begin(), source.end(), test_case), end; found != end;
             ++found)
            names.push_back(std::regex_replace(found->str(1), seam, ""));
    }
    return names;
}

/// The numbers in one test's name: "[MQTT-3.1.0-1]".
std::vector<std::string> numbers_in(const std::string& name) {
    static const std::regex number(R"(\[(MQTT-\d+\.\d+\.\d+-\d+)\])");
    std::vector<std::string> numbers;
    for (std::sregex_iterator found(name.begin(), name.end(), number), end; found != end; ++found)
        numbers.push_back(found->str(1));
    return numbers;
}

void check(const std::string& table, const std::string& prefix) {
    const auto kinds = statements_of(table);
    std::set<std::string> tested;
    for (const auto& name : tests_of(prefix)) {
        CAPTURE(name);
        const auto numbers = numbers_in(name);
        CHECK(!numbers.empty());
        for (const auto& number : numbers) {
            CAPTURE(number);
            const auto kind = kinds.find(number);
            const bool has_a_row = kind != kinds.end();
            CHECK(has_a_row);
            if (has_a_row) CHECK(kind->second == "test");
            tested.insert(number);
        }
    }
    for (const auto& [number, kind] : kinds)
        if (kind == "test") CHECK_MESSAGE(tested.contains(number), "no test carries ", number);
}

}  // namespace

TEST_CASE("every statement of MQTT 3.1.1 that binds a server has a test named after it") {
    check("statements_3_1_1.txt", "mqtt311_");
}

TEST_CASE("every statement of MQTT 5.0 that binds a server has a test named after it") {
    check("statements_5_0.txt", "mqtt5_");
}

TEST_CASE("every conformance test belongs to one version of the standard") {
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".cpp") continue;
        const auto file = entry.path().filename().string();
        CAPTURE(file);
        const bool belongs = file.starts_with("mqtt311_") || file.starts_with("mqtt5_");
        CHECK(belongs);
    }
}
