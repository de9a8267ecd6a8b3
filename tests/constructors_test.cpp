#include <doctest/doctest.h>

#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

// A constructor that takes many references hides which of them belong together.

namespace {

namespace fs = std::filesystem;

/// Of a list that begins behind its opening parenthesis.
std::size_t count_parameters(std::string_view list) {
    std::size_t commas = 0;
    int depth = 0;
    bool is_empty = true;
    for (const char c : list) {
        if (c == ')' && depth == 0) break;
        if (c == '(' || c == '<' || c == '{') ++depth;
        if (c == ')' || c == '>' || c == '}') --depth;
        if (c == ',' && depth == 0) ++commas;
        if (std::isspace(static_cast<unsigned char>(c)) == 0) is_empty = false;
    }
    return is_empty ? 0 : commas + 1;
}

struct Constructor {
    std::string of;
    std::size_t parameters;
};

/// Those that a header declares, at the beginning of a line or behind `explicit`.
std::vector<Constructor> constructors_of(const std::string& header) {
    static const std::regex begin(R"((?:^|\n) +(?:explicit )?([A-Z]\w*)\()");
    std::vector<Constructor> found;
    for (std::sregex_iterator i(header.begin(), header.end(), begin), end; i != end; ++i) {
        const std::string name = (*i)[1];
        if (header.find("class " + name) == std::string::npos &&
            header.find("struct " + name) == std::string::npos)
            continue;
        const auto list = static_cast<std::size_t>(i->position() + i->length());
        found.push_back({name, count_parameters(std::string_view(header).substr(list))});
    }
    return found;
}

}  // namespace

TEST_CASE("the parameters of constructors are counted") {
    const auto found = constructors_of(R"(
class Many : Base {
public:
    explicit Many(std::map<int, int> a, int b = f(1, 2), std::function<void(int, int)> c = {1, 2},
                  int d);
    Many();
    int Other(int a, int b);
};
)");
    REQUIRE(found.size() == 2);
    CHECK(found[0].of == "Many");
    CHECK(found[0].parameters == 4);
    CHECK(found[1].parameters == 0);
}

TEST_CASE("no constructor of the server has more than seven parameters") {
    std::size_t counted = 0;
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(PULSEGATE_SOURCE_DIR) / "server")) {
        if (entry.path().extension() != ".h") continue;
        std::ifstream in(entry.path());
        const std::string header{std::istreambuf_iterator<char>(in), {}};
        for (const Constructor& constructor : constructors_of(header)) {
            CAPTURE(entry.path().string());
            CAPTURE(constructor.of);
            CHECK(constructor.parameters <= 7);
            ++counted;
        }
    }
    CHECK(counted > 100);
}
