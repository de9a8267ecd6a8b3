#include "loadgen/observe/presence_query.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <exception>
#include <stdexcept>
#include <utility>

#include "loadgen/observe/metrics.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

/// The time for an answer: longer than an HTTP client of a chat would wait.
constexpr Duration http_patience = std::chrono::seconds(5);

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : text) {
        if (plain.find(c) != std::string_view::npos) {
            encoded += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        encoded += '%';
        encoded += digits[byte >> 4];
        encoded += digits[byte & 15];
    }
    return encoded;
}

}  // namespace

std::vector<UserPresence> users_in(std::string_view text) {
    const auto answer = json::parse(json::string_view(text.data(), text.size())).as_object();
    std::vector<UserPresence> users;
    for (const auto& each : answer.at("users").as_array()) {
        auto presence = read_user_presence(each);
        if (!presence) throw std::runtime_error("the answer is not about presence");
        users.push_back(std::move(*presence));
    }
    for (const auto& name : answer.at("unknown").as_array())
        users.push_back({json::value_to<std::string>(name)});
    return users;
}

PresenceQuery::PresenceQuery(std::string api, std::string token)
    : api_(std::move(api)), token_(std::move(token)), thread_([this] { run(); }) {}

PresenceQuery::~PresenceQuery() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void PresenceQuery::ask(const std::vector<std::string>& users) {
    std::string path = "/api/v1/users?ids=";
    for (const auto& user : users)
        path += (&user == &users.front() ? "" : ",") + percent_encoded(user);
    {
        const std::lock_guard lock(mutex_);
        question_ = std::move(path);
    }
    wake_.notify_one();
}

std::optional<PresenceQuery::Answer> PresenceQuery::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answer_, std::nullopt);
}

void PresenceQuery::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return stopped_ || question_; });
        if (stopped_) return;
        const auto path = *std::exchange(question_, std::nullopt);
        lock.unlock();
        auto answer = answer_to(path);
        lock.lock();
        answer_ = std::move(answer);
    }
}

PresenceQuery::Answer PresenceQuery::answer_to(const std::string& path) const {
    Answer answer{Clock::now(), {}, {}};
    try {
        answer.users =
            users_in(http_body({.url = api_ + path, .token = token_, .within = http_patience}));
    } catch (const std::exception& error) {
        answer.trouble = error.what();
    }
    return answer;
}

}  // namespace pulsegate::load
