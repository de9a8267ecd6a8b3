#include "server/http/messages/once.h"

#include <openssl/sha.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/http/serving/bad_request.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

constexpr std::size_t longest_key = 255;

std::string scoped_key(const ApiRequest& request) {
    const auto key = request.idempotency_key.value_or("");
    const bool fits = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
    if (key.empty() || key.size() > longest_key || !fits)
        throw BadRequest(
            ApiError::bad_key,
            "there must be one Idempotency-Key, with 1 to 255 visible ASCII characters");
    // Names of tokens and routes have no blanks.
    return std::string(request.token).append(" ").append(request.route).append(" ").append(key);
}

RepeatedRequests::BodyHash body_hash(std::string_view body) {
    RepeatedRequests::BodyHash hash{};
    SHA256(reinterpret_cast<const unsigned char*>(body.data()), body.size(), hash.data());
    return hash;
}

/// Finishes the request with the key in any case. Without `done`, it was not carried out.
class UnderWay {
public:
    UnderWay(RepeatedRequests& requests, std::string key)
        : requests_(requests), key_(std::move(key)) {}
    ~UnderWay() { requests_.finish(key_, std::move(answer_)); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    void done(std::string answer) { answer_ = std::move(answer); }

private:
    RepeatedRequests& requests_;
    const std::string key_;
    std::optional<std::string> answer_{};
};

}  // namespace

RepeatedRequests::Verdict RepeatedRequests::begin(const std::string& key, const BodyHash& body,
                                                  Millis now) {
    make_room(now);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
        const Entry& first = *found->second;
        if (first.body != body) return Verdict::other_body;
        return first.is_answered ? Verdict::is_repeated : Verdict::under_way;
    }
    if (!admits_new_) return Verdict::under_way;
    entries_.push_back({.key = key, .body = body, .began = now});
    by_key_.emplace(key, std::prev(entries_.end()));
    bytes_ += entries_.back().bytes();
    return Verdict::is_new;
}

void RepeatedRequests::finish(const std::string& key, std::optional<std::string> answer) {
    const auto entry = by_key_.at(key);
    if (!answer) return drop(entry);
    bytes_ -= entry->bytes();
    entry->answer = *std::move(answer);
    entry->is_answered = true;
    bytes_ += entry->bytes();
    make_room(entry->began);
}

std::vector<AnswerRecord> RepeatedRequests::describe(Millis now) const {
    std::vector<AnswerRecord> answers;
    for (const Entry& each : entries_)
        if (each.is_answered)
            answers.push_back({.key = each.key,
                               .body_hash = std::string(each.body.begin(), each.body.end()),
                               .age = now - each.began,
                               .answer = each.answer});
    return answers;
}

void RepeatedRequests::adopt(const std::vector<AnswerRecord>& answers, Millis now) {
    for (const AnswerRecord& each : answers) {
        BodyHash body{};
        if (each.body_hash.size() != body.size()) continue;
        std::ranges::copy(each.body_hash, body.begin());
        if (begin(each.key, body, now - each.age) == Verdict::is_new) finish(each.key, each.answer);
    }
}

void RepeatedRequests::drop(Entries::iterator entry) {
    bytes_ -= entry->bytes();
    by_key_.erase(entry->key);
    entries_.erase(entry);
}

/// Drops answered requests. The number of connections limits the unanswered ones.
void RepeatedRequests::make_room(Millis now) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const bool is_old = now - entry->began >= kept;
        if (!is_old && entries_.size() <= most_keys && bytes_ <= most_bytes) return;
        const auto next = std::next(entry);
        if (entry->is_answered) drop(entry);
        entry = next;
    }
}

awaitable<ApiReply> answer_once(const ApiContext& api, const ApiRequest& request,
                                awaitable<ApiReply> (*act)(const ApiContext&, const ApiRequest&)) {
    if (!request.idempotency_key) co_return co_await act(api, request);
    using Verdict = RepeatedRequests::Verdict;
    const std::string key = scoped_key(request);
    switch (api.repeated.begin(key, body_hash(request.body), monotonic_now())) {
        case Verdict::other_body:
            co_return api_refusal(ApiError::key_reused,
                                  "an earlier request with this Idempotency-Key had a different "
                                  "body: use a new key for a new request");
        case Verdict::under_way:
            co_return api_refusal(ApiError::request_under_way,
                                  "a request with this Idempotency-Key is still running: repeat "
                                  "the request to get its answer");
        case Verdict::is_repeated:
            co_return ApiReply{.body = api.repeated.answer(key),
                               .fields = {{"Idempotent-Replayed", "true"}}};
        case Verdict::is_new: break;
    }
    UnderWay under_way(api.repeated, key);
    ApiReply reply = co_await act(api, request);
    if (reply.status == boost::beast::http::status::ok) under_way.done(reply.body);
    co_return reply;
}

}  // namespace pulsegate
