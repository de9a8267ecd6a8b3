#include "loadgen/kill/feed_reader.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>

#include "loadgen/net/http.h"
#include "loadgen/observe/user_presence.h"

namespace pulsegate::kill {

namespace json = boost::json;

namespace {

constexpr const char* changes = "/api/v1/presence/changes";

std::string text_of(const json::object& object, const char* key) {
    const auto* value = object.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : "";
}

json::object read_object(const std::string& body) {
    boost::system::error_code error;
    const auto value = json::parse(body, error);
    return !error && value.is_object() ? value.get_object() : json::object();
}

}  // namespace

void FeedReader::begin() {
    const auto answer = load::ask({.url = context_.http + changes});
    cursor_ = text_of(read_object(answer.body), "cursor");
    if (cursor_.empty())
        fmt::print(stderr, "kill: no presence feed is read: {} was answered with status {}\n",
                   changes, answer.status);
}

void FeedReader::broker_ended() {
    reading_ = false;
    context_.presence.end_watching(name);
}

void FeedReader::read(Time now) {
    if (cursor_.empty()) return;
    if (!reading_) context_.presence.begin_watching(name, false, now);
    reading_ = true;
    while (read_page(now)) {
    }
}

/// Returns whether there are more changes to read.
bool FeedReader::read_page(Time now) {
    const auto answer = load::ask(
        {.url = fmt::format("{}{}?after={}&limit=1000", context_.http, changes, cursor_)});
    if (answer.status == 0) return false;  // there was no answer
    const auto page = read_object(answer.body);
    const auto* list = page.if_contains("changes");
    if (answer.status != 200 || !list || !list->is_array()) {
        context_.messages.note_fault(
            fmt::format("the feed answered with status {}: {:.80}", answer.status, answer.body),
            now);
        return false;
    }
    for (const auto& each : list->get_array()) {
        if (const auto shown = load::read_user_presence(each))
            context_.presence.tell(name, shown->user, {shown->online, shown->version}, now);
        else
            context_.messages.note_fault(
                fmt::format("the feed has a change that can't be read: {:.80}",
                            boost::json::serialize(each)),
                now);
    }
    cursor_ = text_of(page, "cursor");
    if (cursor_.empty()) context_.messages.note_fault("the feed answered without a cursor", now);
    const auto* more = page.if_contains("more");
    return more && more->is_bool() && more->get_bool();
}

}  // namespace pulsegate::kill
