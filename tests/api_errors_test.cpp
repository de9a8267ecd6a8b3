#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "server/http/operation/openapi_document.h"
#include "server/http/serving/api_message.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace json = boost::json;

namespace {

std::string text_of_source(const std::filesystem::path& path) {
    std::ifstream in(std::filesystem::path(PULSEGATE_SOURCE_DIR) / path);
    REQUIRE(in);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

bool has_example(const json::value& answer_or_body) {
    const auto& content = answer_or_body.at("content").as_object();
    return std::ranges::any_of(
        content, [](const auto& form) { return form.value().as_object().contains("example"); });
}

}  // namespace

TEST_CASE("the documents name the codes of all errors of the API, and no others") {
    const std::string page = text_of_source("server/docs/errors.md");
    for (const ApiErrorRow& row : api_errors())
        CHECK(has(page, fmt::format("| `{}` | {} | {} |\n", row.code,
                                    static_cast<unsigned>(row.status), row.meaning)));
    CHECK(std::ranges::count(page, '\n') ==
          std::ranges::count(page.substr(0, page.find("|---")), '\n') + 1 + api_errors().size());

    const auto document = json::parse(std::string(openapi_document));
    const auto& codes = document.at_pointer("/components/schemas/ErrorCode/enum").as_array();
    REQUIRE(codes.size() == api_errors().size());
    for (std::size_t i = 0; i < codes.size(); ++i)
        CHECK(codes[i].as_string() == api_errors()[i].code);
}

TEST_CASE("an error has a status, a sentence and a code") {
    const auto reply = api_refusal(ApiError::unknown_user, "unknown user", {{"user", "dave"}});
    CHECK(reply.status == boost::beast::http::status::not_found);
    CHECK(reply.body == R"({"error":"unknown user","code":"unknown_user","user":"dave"})");
}

TEST_CASE("no error of the API is written without its code") {
    // One function writes both members: a file that writes one of them alone leaves the other out.
    const std::filesystem::path root = std::filesystem::path(PULSEGATE_SOURCE_DIR) / "server/http";
    std::size_t writers = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
        if (file.path().extension() != ".cpp") continue;
        CAPTURE(file.path().string());
        const bool writes = has(text_of_source(file.path()), "\"error\"");
        writers += writes;
        CHECK((!writes || file.path().filename() == "api_message.cpp"));
    }
    CHECK(writers == 1);
}

TEST_CASE("a mistake in a parameter has the code of its kind") {
    const auto code_of = [](const std::string& query) {
        try {
            static_cast<void>(page_size(Query(query, "limit after")));
        } catch (const BadRequest& wrong) {
            return wrong.error;
        }
        return ApiError::standby;
    };
    CHECK(code_of("limit=5&after=x") == ApiError::standby);  // nothing is wrong
    CHECK(code_of("limt=5") == ApiError::unknown_parameter);
    CHECK(code_of("limit=5&limit=5") == ApiError::repeated_parameter);
    CHECK(code_of("limit=") == ApiError::bad_parameter);
    CHECK(code_of("limit=0") == ApiError::bad_parameter);
}

TEST_CASE("generators of clients find a name, a group and an example of each operation") {
    const auto document = json::parse(std::string(openapi_document));
    std::set<std::string> groups;
    for (const auto& tag : document.at_pointer("/tags").as_array())
        groups.emplace(tag.at("name").as_string());
    std::set<std::string> names;
    for (const auto& path : document.at("paths").as_object())
        for (const auto& method : path.value().as_object()) {
            CAPTURE(path.key());
            CAPTURE(method.key());
            const json::object& operation = method.value().as_object();
            CHECK(names.emplace(operation.at("operationId").as_string()).second);
            CHECK(groups.contains(std::string(operation.at("tags").at(0).as_string())));
            CHECK(has_example(operation.at("responses").as_object().begin()->value()));
            if (const auto* const body = operation.if_contains("requestBody"))
                CHECK(has_example(*body));
        }
    CHECK(names.size() > 40);
}
