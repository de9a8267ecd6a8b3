#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <string>
#include <vector>

namespace {

/// The test cases that ran without a single assertion. Whatever they call, they would pass.
std::vector<std::string> empty_cases;

struct EmptyCases : doctest::IReporter {
    explicit EmptyCases(const doctest::ContextOptions&) {}

    void test_case_start(const doctest::TestCaseData& test) override { name_ = test.m_name; }
    void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
        if (stats.numAssertsCurrentTest == 0) empty_cases.push_back(name_);
    }

    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

private:
    std::string name_;
};

DOCTEST_REGISTER_LISTENER("empty_cases", 1, EmptyCases);

}  // namespace

int main(int count, char** arguments) {
    const int status = doctest::Context(count, arguments).run();
    for (const std::string& name : empty_cases)
        std::cerr << "the test case \"" << name << "\" asserts nothing\n";
    return empty_cases.empty() ? status : EXIT_FAILURE;
}
