#include "server/handover/terms.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/system/error_code.hpp>
#include <utility>

#include "server/auth/json_claims.h"
#include "server/base/version.h"
#include "server/handover/channel.h"
#include "server/store/database/schema.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

/// The format of a client's state, and the oldest format that is still read. Raise the format when
/// the state gets something that a reader must understand.
constexpr int state_format = 1;
constexpr int oldest_state_format = 1;
/// The same for a gateway's data besides its clients. A program that does not state that it reads
/// this data gets none.
constexpr int gateway_format = 1;

json::object parse(std::string_view text) {
    auto object = read_object(text);
    if (!object) throw HandoverError("the other process said something that is not JSON");
    return *std::move(object);
}

template <class Number>
Number number(const json::object& from, std::string_view name) {
    boost::system::error_code error;
    const auto* const value = from.if_contains(name);
    if (!value) return 0;
    const auto found = value->to_number<Number>(error);
    return error ? Number{} : found;
}

/// The numbers in the object with this name, by their names.
std::map<std::string, std::uint64_t> numbers(const json::object& from, std::string_view name) {
    std::map<std::string, std::uint64_t> all;
    const auto* const value = from.if_contains(name);
    if (!value || !value->is_object()) return all;
    for (const auto& each : value->get_object())
        all[each.key()] = number<std::uint64_t>(value->get_object(), each.key());
    return all;
}

std::vector<std::uint64_t> list_of_numbers(const json::object& from, std::string_view name) {
    std::vector<std::uint64_t> all;
    const auto* const value = from.if_contains(name);
    if (!value || !value->is_array()) return all;
    for (const auto& each : value->get_array()) {
        boost::system::error_code error;
        const auto found = each.to_number<std::uint64_t>(error);
        if (!error) all.push_back(found);
    }
    return all;
}

std::string text(const json::object& from, std::string_view name) {
    const auto* const value = from.if_contains(name);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

UpgradeHello own_hello(Promises promises) {
    return {.version = program_version(),
            .state = state_format,
            .oldest_state = oldest_state_format,
            .store = newest_schema(),
            .gateway = gateway_format,
            .promises = std::move(promises)};
}

std::string encode(const UpgradeHello& hello) {
    json::object promises;
    for (const auto& [setting, promised] : hello.promises) promises[setting] = promised;
    return json::serialize(json::object{{"version", hello.version},
                                        {"state", hello.state},
                                        {"oldest_state", hello.oldest_state},
                                        {"store", hello.store},
                                        {"gateway", hello.gateway},
                                        {"promises", std::move(promises)}});
}

UpgradeHello decode_hello(std::string_view body) {
    const auto object = parse(body);
    return {.version = text(object, "version"),
            .state = number<int>(object, "state"),
            .oldest_state = number<int>(object, "oldest_state"),
            .store = number<int>(object, "store"),
            .gateway = number<int>(object, "gateway"),
            .promises = numbers(object, "promises")};
}

std::string objection(const UpgradeHello& hello, const UpgradeHello& own) {
    if (hello.oldest_state > own.state || hello.state < own.oldest_state)
        return fmt::format(
            "version {} can't read the state of clients that version {} writes (format {}); stop "
            "and start instead",
            hello.version, own.version, own.state);
    if (hello.store != own.store)
        return fmt::format(
            "version {} has format {} of the store, and version {} has format {}; stop and start "
            "instead",
            hello.version, hello.store, own.version, own.store);
    for (const auto& [setting, promised] : own.promises) {
        const auto allowed = hello.promises.find(setting);
        if (allowed == hello.promises.end() || allowed->second >= promised) continue;
        if (setting == promise_of_no_login)
            return "clients may be connected whose logins nobody has checked, and the settings of "
                   "the new process check them; stop and start instead";
        return fmt::format(
            "{}: connected clients may rely on more than the settings of the new process "
            "allow; leave the setting as it is, or stop and start instead",
            setting);
    }
    return "";
}

std::string objection(const UpgradeRoom& room) {
    constexpr std::size_t mebibyte = 1024 * 1024;
    constexpr std::size_t least_disk = 64 * mebibyte;
    if (room.disk && *room.disk < least_disk)
        return fmt::format("the disk of the data folder has {} MiB left; an upgrade needs {} MiB",
                           *room.disk / mebibyte, least_disk / mebibyte);
    if (room.own_memory > room.unused_memory)
        return fmt::format(
            "for a moment the new process needs {} MiB of memory too, and {} MiB are left; stop "
            "and start instead",
            room.own_memory / mebibyte, room.unused_memory / mebibyte);
    return "";
}

std::string encode(const Ready& ready) {
    const auto& clients = ready.refused_clients;
    return json::serialize(
        json::object{{"adopted", ready.adopted},
                     {"refused", ready.refused},
                     {"refused_clients", json::array(clients.begin(), clients.end())},
                     {"divides_rooms", ready.divides_rooms}});
}

Ready decode_ready(std::string_view body) {
    const auto object = parse(body);
    const auto* const divides = object.if_contains("divides_rooms");
    return {.adopted = number<std::uint64_t>(object, "adopted"),
            .refused = number<std::uint64_t>(object, "refused"),
            .refused_clients = list_of_numbers(object, "refused_clients"),
            .divides_rooms = divides && divides->is_bool() && divides->get_bool()};
}

std::string encode(const Go& go) {
    json::object left;
    for (const auto& [reason, clients] : go.outcome.left) left[reason] = clients;
    return json::serialize(json::object{{"from", go.outcome.from},
                                        {"to", go.outcome.to},
                                        {"moved", go.outcome.moved},
                                        {"left", left},
                                        {"since", go.since.time_since_epoch().count()}});
}

Go decode_go(std::string_view body) {
    using Time = std::chrono::steady_clock::time_point;
    const auto object = parse(body);
    Go go{.outcome = {.end = UpgradeOutcome::End::completed,
                      .from = text(object, "from"),
                      .to = text(object, "to"),
                      .moved = number<std::uint64_t>(object, "moved")},
          .since = Time(Time::duration(number<Time::rep>(object, "since")))};
    go.outcome.left = numbers(object, "left");
    return go;
}

}  // namespace pulsegate
