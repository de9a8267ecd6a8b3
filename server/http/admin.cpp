#include "server/http/admin.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/url.h"
#include "server/base/web_origin.h"
#include "server/data_store.h"
#include "server/http/api_message.h"
#include "server/http/backup.h"
#include "server/http/delayed.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/limits/address.h"
#include "server/shard.h"
#include "server/topics.h"

namespace pulsegate {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr auto shard_timeout = 2s;
constexpr std::size_t most_users_asked = 1000;
/// Of a request's body.
constexpr std::size_t most_body_bytes = 16 * 1024;
/// The same with delayed messages.
constexpr std::size_t most_delayed_bytes = 4 * 1024 * 1024;

ApiReply reply(std::string body) { return {.body = std::move(body)}; }

ApiReply reply_with(http::status status, std::string body) {
    return {.status = status, .body = std::move(body)};
}

ApiReply unavailable() {
    return api_refusal(http::status::service_unavailable,
                       "a shard does not answer: its event loop is stalled");
}

bool is_delayed(std::string_view path) {
    return path == delayed_path ||
           (path.starts_with(delayed_path) && path.substr(delayed_path.size()).starts_with('/'));
}

/// What can be done with a resource, as in the field Allow.
std::string_view methods_of(std::string_view path) {
    if (path == "/api/v1/retained") return "DELETE";
    if (path == "/api/v1/bans") return "GET, HEAD, DELETE";
    if (path == "/api/v1/backup") return "POST";
    if (path == delayed_path) return "GET, HEAD, POST, DELETE";
    if (is_delayed(path)) return "GET, HEAD, DELETE";
    return "GET, HEAD";
}

bool allows(std::string_view methods, std::string_view method) {
    while (!methods.empty()) {
        const auto end = std::min(methods.find(", "), methods.size());
        if (methods.substr(0, end) == method) return true;
        methods.remove_prefix(std::min(end + 2, methods.size()));
    }
    return false;
}

std::string health_json(std::size_t shards, json::array stalled) {
    return json::serialize(json::object{{"status", stalled.empty() ? "ok" : "stalled"},
                                        {"shards", shards},
                                        {"stalled", std::move(stalled)}});
}

std::string wheel_json(const std::vector<ShardStatus>& shards) {
    json::array wheels;
    for (const ShardStatus& shard : shards)
        wheels.push_back(json::object{
            {"shard", wheels.size()},
            {"tick", shard.tick},
            {"current", shard.tick % Wheel::slots},
            {"connections", shard.connections},
            {"slots", json::array(shard.slots.begin(), shard.slots.end())},
        });
    return json::serialize(json::object{{"tick_ms", tick_length}, {"shards", std::move(wheels)}});
}

std::string unknown_user_json(std::string_view user) {
    return json::serialize(json::object{{"error", "unknown user"}, {"user", user}});
}

/// The presence of some users; `described` has an empty element for each unknown one.
std::string users_json(const std::vector<std::string>& names,
                       const std::vector<std::optional<std::string>>& described) {
    json::array known;
    json::array unknown;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (described[i])
            known.push_back(json::parse(*described[i]));
        else
            unknown.push_back(json::string(names[i]));
    }
    json::object body{{"users", std::move(known)}, {"unknown", std::move(unknown)}};
    if (body["users"].as_array().empty()) body["error"] = "unknown users";
    return json::serialize(body);
}

std::string bans_json(const std::vector<Ban>& bans) {
    json::array all;
    for (const Ban& ban : bans) {
        json::object one;
        if (ban.address.empty()) {
            one["user"] = ban.user;
            one["client"] = ban.client;
        } else {
            one["address"] = ban.address;
        }
        one["ends_in_ms"] = ban.left;
        all.push_back(std::move(one));
    }
    return json::serialize(json::object{{"bans", std::move(all)}});
}

}  // namespace

struct Admin::Impl {
    Impl(std::vector<Shard*> all, const Admission& admitted, AddressLimits& limits,
         const Authenticator& checks, DataStore& data, const BrokerSettings& broker_settings,
         std::string secret)
        : shards(std::move(all)),
          admission(admitted),
          address_limits(limits),
          authenticator(checks),
          store(data),
          settings(broker_settings),
          token(std::move(secret)),
          server({.most_body_bytes = [this](auto& request) { return most_body_of(request); },
                  .answer = [this](auto& request) { return answer(request); }}) {}

    bool admits(const ApiRequest& request) const {
        if (token.empty()) return true;
        const std::string expected = "Bearer " + token;
        const auto shown = request.authorization;
        return shown.size() == expected.size() &&
               CRYPTO_memcmp(shown.data(), expected.data(), expected.size()) == 0;
    }

    std::size_t most_body_of(const ApiRequest& request) const {
        return is_delayed(request.path) && admits(request) ? most_delayed_bytes : most_body_bytes;
    }

    /// Runs `question(Shard&)` on each of the shards' threads and returns the answers, in their
    /// order; an empty element for a shard that did not answer in time.
    template <class Question, class Answer = std::invoke_result_t<Question, Shard&>>
    asio::awaitable<std::vector<std::optional<Answer>>> ask(std::vector<Shard*> asked,
                                                            Question question) {
        struct Gathering {
            Gathering(asio::io_context& context, std::size_t count)
                : timer(context, shard_timeout), answers(count), left(count) {}
            asio::steady_timer timer;
            std::vector<std::optional<Answer>> answers;
            std::size_t left;
        };
        const auto gathering = std::make_shared<Gathering>(io, asked.size());
        for (std::size_t i = 0; i < asked.size(); ++i)
            asked[i]->send(Shard::Task([this, gathering, question, i](Shard& shard) {
                asio::post(io, [gathering, i, answer = question(shard)]() mutable {
                    gathering->answers[i] = std::move(answer);
                    if (--gathering->left == 0) gathering->timer.cancel();
                });
            }));
        boost::system::error_code cancelled;
        co_await gathering->timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        co_return gathering->answers;  // a copy: late answers are still written to the original
    }

    /// The status of all shards; nothing if one of them does not answer in time.
    asio::awaitable<std::optional<std::vector<ShardStatus>>> all_status() {
        auto answers = co_await ask(shards, [](Shard& shard) { return shard.status(); });
        std::vector<ShardStatus> all;
        for (auto& answer : answers) {
            if (!answer) co_return std::nullopt;
            all.push_back(std::move(*answer));
        }
        co_return all;
    }

    /// Without a token, whoever reaches the API may use it; but not the scripts of web pages in a
    /// browser on this machine, which come under the name of the page's host (DNS rebinding) or
    /// from another origin. What is wrong with the request, or nothing.
    std::string_view objection_to_page(const ApiRequest& request) const {
        if (!token.empty()) return {};
        if (!request.host.empty() && !is_loopback_host(request.host))
            return "without an admin-token-file only requests to localhost or a loopback address "
                   "are answered: see the Host field";
        if (!origin_allowed(request.origin, request.host, {}))
            return "requests of web pages from elsewhere are not answered: see the Origin field";
        return {};
    }

    asio::awaitable<ApiReply> answer(const ApiRequest& request) {
        const auto path = request.path;
        const auto query = request.query;
        constexpr std::string_view user_path = "/api/v1/users/";

        const bool deletes = request.method == http::verb::delete_;

        if (const auto allowed = methods_of(path);
            !allows(allowed, http::to_string(request.method))) {
            auto refusal = api_refusal(http::status::method_not_allowed,
                                       "method not allowed: use one of " + std::string(allowed));
            refusal.fields.emplace_back(http::field::allow, allowed);
            co_return refusal;
        }
        const bool is_probe = path == "/healthz" || path == "/readyz";
        if (!is_probe && !admits(request)) {
            auto refusal = api_refusal(http::status::unauthorized,
                                       "token missing or wrong: send Authorization: Bearer TOKEN");
            refusal.fields.emplace_back(http::field::www_authenticate, "Bearer");
            co_return refusal;
        }
        if (path == "/healthz") co_return co_await health();
        if (path == "/readyz") co_return co_await readiness();
        if (const auto objection = objection_to_page(request); !objection.empty())
            co_return api_refusal(http::status::forbidden, objection);
        if (path == "/metrics") co_return co_await metrics();
        if (path == "/api/v1/wheel") co_return co_await wheel();
        if (path == "/api/v1/backup") {
            co_return co_await back_up(io, store, request.body);
        }
        if (is_delayed(path)) {
            const auto number = path.substr(std::min(delayed_path.size() + 1, path.size()));
            const bool grows = request.method == http::verb::post && !store.is_kept();
            if (grows && (admission.scarce() || admission.exceeded()))
                co_return api_refusal(http::status::insufficient_storage,
                                      "memory-budget is nearly used up");
            const DelayedRequest asked{request.method, number, query, request.body};
            co_return co_await delayed(io, store, settings, asked);
        }
        if (path == "/api/v1/retained") co_return co_await erase_retained(query);
        if (path == "/api/v1/bans" && deletes) co_return co_await lift_ban(query);
        if (path == "/api/v1/bans") co_return co_await bans();
        if (path == "/api/v1/users") co_return co_await users(query);
        if (path.starts_with(user_path) && path.size() > user_path.size())
            co_return co_await user(path.substr(user_path.size()));
        co_return api_refusal(http::status::not_found, "no such resource");
    }

    asio::awaitable<ApiReply> health() {
        const auto answers = co_await ask(shards, [](Shard&) { return true; });
        json::array stalled;
        for (std::size_t i = 0; i < answers.size(); ++i)
            if (!answers[i]) stalled.push_back(i);
        const auto status = stalled.empty() ? http::status::ok : http::status::service_unavailable;
        co_return reply_with(status, health_json(shards.size(), std::move(stalled)));
    }

    /// Does the gateway do all that it should? It may serve what needs no disk, and not be ready.
    asio::awaitable<ApiReply> readiness() {
        const auto answers = co_await ask(
            shards, [](Shard& shard) { return shard.broker().journal().is_refused(); });
        std::string why;
        for (const auto& refuses : answers) {
            if (refuses.value_or(false)) why = "the disk is in trouble: nothing is stored";
            if (!refuses && why.empty()) why = "an event loop is stalled";
        }
        if (why.empty()) co_return reply(json::serialize(json::object{{"status", "ready"}}));
        co_return reply_with(http::status::service_unavailable,
                             json::serialize(json::object{{"status", "not ready"}, {"why", why}}));
    }

    asio::awaitable<ApiReply> metrics() {
        const auto all = co_await all_status();
        if (!all) co_return unavailable();
        co_return ApiReply{.body = metrics_text(*all, admission, authenticator.hook_counters()),
                           .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    }

    asio::awaitable<ApiReply> wheel() {
        const auto all = co_await all_status();
        if (!all) co_return unavailable();
        co_return reply(wheel_json(*all));
    }

    asio::awaitable<ApiReply> bans() {
        const auto question = [](Shard& shard) {
            return shard.client_limits().bans(monotonic_now());
        };
        const auto answers = co_await ask(shards, question);
        auto all = address_limits.bans(monotonic_now());
        for (const auto& answer : answers) {
            if (!answer) co_return unavailable();
            all.insert(all.end(), answer->begin(), answer->end());
        }
        co_return reply(bans_json(all));
    }

    static std::optional<std::string> decoded_value(std::string_view query, std::string_view key) {
        const auto encoded = query_value(query, key);
        return encoded ? percent_decoded(*encoded) : std::nullopt;
    }

    /// Each shard has all retained messages, and deletes them page by page.
    asio::awaitable<ApiReply> erase_retained(std::string_view query) {
        const auto filter = decoded_value(query, "filter");
        const auto user = decoded_value(query, "user");
        if (!filter && !user)
            co_return api_refusal(http::status::bad_request,
                                  "nothing named: add ?filter=room/%23, or ?user=alice, or both");
        if (filter && !is_plain_filter(*filter))
            co_return api_refusal(
                http::status::bad_request,
                "filter is no topic filter; percent-encode '#' as %23, '+' as %2B");
        Retained::Erasure erasure{
            .filter = filter.value_or("#"), .sender = {}, .stamp = next_stamp()};
        if (user) erasure.sender = fingerprint(*user);
        std::size_t erased = 0;
        for (Shard* const shard : shards) {
            Retained::Erasure here = erasure;
            while (!here.done) {
                // Named: see `user`.
                const auto step = [here](Shard& each) {
                    auto next = here;
                    each.broker().erase(next, monotonic_now());
                    return next;
                };
                const auto answers = co_await ask(std::vector<Shard*>(1, shard), step);
                if (!answers.front()) co_return unavailable();
                here = *answers.front();
            }
            erased = std::max(erased, here.erased);
        }
        spdlog::info("{} retained messages deleted by the admin API", erased);
        co_return reply(json::serialize(json::object{{"deleted", erased}}));
    }

    asio::awaitable<ApiReply> lift_ban(std::string_view query) {
        const auto value = [query](std::string_view key) { return decoded_value(query, key); };
        if (const auto text = value("address")) {
            boost::system::error_code error;
            const auto address = asio::ip::make_address(text->substr(0, text->find('/')), error);
            if (error)
                co_return api_refusal(http::status::bad_request, "address is not an IP address");
            if (!address_limits.lift_ban(Address(address)))
                co_return api_refusal(http::status::not_found, "no such ban");
            co_return reply(bans_json({}));
        }
        const auto user = value("user");
        const auto client = value("client");
        if (!user || !client)
            co_return api_refusal(
                http::status::bad_request,
                "no ban named: add ?address=10.0.0.7 or ?user=alice&client=alice-phone");
        const auto order = [name = *user, id = *client](Shard& shard) {
            return shard.client_limits().lift_ban(name, id);
        };
        Shard* const home = shards[home_shard(*user, static_cast<unsigned>(shards.size()))];
        const auto answers = co_await ask(std::vector<Shard*>(1, home), order);
        if (!answers.front()) co_return unavailable();
        if (!*answers.front()) co_return api_refusal(http::status::not_found, "no such ban");
        co_return reply(bans_json({}));
    }

    asio::awaitable<ApiReply> user(std::string_view encoded) {
        const auto name = percent_decoded(encoded);
        if (!name)
            co_return api_refusal(http::status::bad_request,
                                  "the path is not percent-encoded UTF-8");
        // Named, because g++ 12 destroys a lambda with captures twice when it is a temporary in a
        // co_await expression (GCC bug 99576).
        const auto question = [user = *name](Shard& shard) {
            return shard.broker().describe(user, monotonic_now());
        };
        Shard* const home = shards[home_shard(*name, static_cast<unsigned>(shards.size()))];
        const auto answers = co_await ask(std::vector<Shard*>(1, home), question);
        if (!answers.front()) co_return unavailable();
        const auto& described = *answers.front();
        if (!described) co_return reply_with(http::status::not_found, unknown_user_json(*name));
        co_return reply(*described);
    }

    /// The presence of these users as JSON, in their order; an empty element for each unknown one.
    /// Nothing if a shard does not answer in time.
    asio::awaitable<std::optional<std::vector<std::optional<std::string>>>> describe(
        std::vector<std::string> names) {
        const auto shared = std::make_shared<const std::vector<std::string>>(std::move(names));
        const auto question = [shared](Shard& shard) {
            std::vector<std::optional<std::string>> found;
            for (const auto& name : *shared)
                found.push_back(shard.broker().describe(name, monotonic_now()));
            return found;
        };
        const auto answers = co_await ask(shards, question);
        std::vector<std::optional<std::string>> described(shared->size());
        for (const auto& answer : answers) {
            if (!answer) co_return std::nullopt;
            for (std::size_t i = 0; i < described.size(); ++i)
                if ((*answer)[i]) described[i] = (*answer)[i];
        }
        co_return described;
    }

    asio::awaitable<ApiReply> users(std::string_view query) {
        const auto ids = query_value(query, "ids");
        if (!ids || ids->empty())
            co_return api_refusal(http::status::bad_request, "no users named: add ?ids=alice,bob");
        std::vector<std::string> names;
        for (std::string_view rest = *ids; names.size() <= most_users_asked;) {
            const auto comma = rest.find(',');
            const auto name = percent_decoded(rest.substr(0, comma));
            if (!name)
                co_return api_refusal(http::status::bad_request,
                                      "ids are not percent-encoded UTF-8");
            names.push_back(*name);
            if (comma == std::string_view::npos) break;
            rest.remove_prefix(comma + 1);
        }
        if (names.size() > most_users_asked)
            co_return api_refusal(http::status::bad_request,
                                  "too many users in one request: name 1000 at most");

        const auto described = co_await describe(names);
        if (!described) co_return unavailable();
        const bool any = std::any_of(described->begin(), described->end(),
                                     [](const auto& user) { return user.has_value(); });
        co_return reply_with(any ? http::status::ok : http::status::not_found,
                             users_json(names, *described));
    }

    std::vector<Shard*> shards;
    const Admission& admission;
    AddressLimits& address_limits;
    const Authenticator& authenticator;
    DataStore& store;
    const BrokerSettings& settings;
    const std::string token;
    HttpServer server;
    asio::io_context& io = server.io();
};

Admin::Admin(std::vector<Shard*> shards, const Admission& admission, AddressLimits& address_limits,
             const Authenticator& authenticator, DataStore& store, const BrokerSettings& settings,
             std::string token)
    : impl_(std::make_unique<Impl>(std::move(shards), admission, address_limits, authenticator,
                                   store, settings, std::move(token))) {}

Admin::~Admin() { stop(); }

Admin::Endpoint Admin::listen(const Endpoint& endpoint) { return impl_->server.listen(endpoint); }

void Admin::start() { impl_->server.start(); }

void Admin::stop() { impl_->server.stop(); }

}  // namespace pulsegate
