// Throws access rules, topics and filters at the rules' parser and checks. The first line of an
// input is the user, the second the client identifier, the third a topic, the fourth a filter; each
// further one is a rule.

#include <cstdint>
#include <string_view>

#include "protocol/topic.h"
#include "protocol/utf8.h"
#include "server/auth/access.h"
#include "server/base/text/lines.h"
#include "server/message/topics.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

std::string_view next_line(Lines& lines) {
    return lines.next() ? lines.line() : std::string_view();
}

/// Is the topic sent to a subscription that selects it? See `covers`.
bool is_sent(std::string_view filter, std::string_view topic) {
    if (!topic_matches(filter, topic)) return false;
    return !begins_with_wildcard(filter) || !presence_of(topic);
}

void check_filter(const AccessRules& rules, const Who& who, std::string_view filter,
                  std::string_view topic) {
    const bool may = rules.may_subscribe(who, filter);
    if (shared_filter(filter)) return;
    require(covers(filter, filter), "a filter covers itself");
    if (!is_sent(filter, topic)) return;
    require(overlaps(filter, topic), "a filter overlaps each topic that it selects");
    require(!may || rules.may_subscribe(who, topic), "no wildcard gets around a rule");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Lines lines(fuzzed_text(data, size));
    Who who{};
    who.user = next_line(lines);
    who.client = next_line(lines);
    const std::string_view topic = next_line(lines);
    const std::string_view filter = next_line(lines);
    if (!valid_utf8(who.user) || !valid_utf8(who.client) || !valid_topic_name(topic)) return 0;
    AccessRules rules;
    bool same_for_both = true;
    while (lines.next()) {
        const std::size_t before = rules.size();
        const bool is_taken = rules.add(lines.line()).empty();
        require(rules.size() == before + (is_taken ? 1 : 0), "a rule that is wrong is not added");
        if (is_taken && lines.line().find("readwrite") == std::string_view::npos)
            same_for_both = false;
    }
    const bool may_publish = rules.may_publish(who, topic);
    require(rules.size() > 0 || !may_publish, "without a rule nobody may publish");
    if (same_for_both && !shared_filter(topic))
        require(may_publish == rules.may_subscribe(who, topic),
                "what is allowed to read and write may be read and written");
    if (valid_topic_filter(filter)) check_filter(rules, who, filter, topic);
    return 0;
}
