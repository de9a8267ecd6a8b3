#include "loadgen/lab/work_order.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <stdexcept>

#include "loadgen/lab/layout.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

json::object target_json(const Target& target) {
    json::array servers;
    for (const auto& server : target.servers) servers.emplace_back(url_of(server));
    return {{"servers", std::move(servers)},
            {"cluster", target.cluster},
            {"users_file", target.identity.users_file},
            {"user", target.identity.user},
            {"password", target.identity.password},
            {"jwt_secret_file", target.identity.jwt_secret_file},
            {"jwt_key_file", target.identity.jwt_key_file},
            {"jwt_life", target.identity.jwt_life.count()},
            {"ca_file", target.ca_file},
            {"insecure", target.insecure},
            {"presence_topic", target.presence_topic},
            {"events_file", target.events_file},
            {"http", target.http},
            {"http_token_file", target.http_token_file},
            {"http_rate", target.http_rate}};
}

Target target_from(const json::object& from) {
    const auto text = [&](const char* key) { return json::value_to<std::string>(from.at(key)); };
    Target target;
    for (const auto& url : from.at("servers").as_array())
        target.servers.push_back(parse_server(url.as_string()));
    if (target.servers.empty()) throw std::runtime_error("a plan without a server");
    target.cluster = from.at("cluster").as_bool();
    target.identity.users_file = text("users_file");
    target.identity.user = text("user");
    target.identity.password = text("password");
    target.identity.jwt_secret_file = text("jwt_secret_file");
    target.identity.jwt_key_file = text("jwt_key_file");
    target.identity.jwt_life = std::chrono::seconds(from.at("jwt_life").to_number<std::int64_t>());
    target.ca_file = text("ca_file");
    target.insecure = from.at("insecure").as_bool();
    target.presence_topic = from.at("presence_topic").as_bool();
    target.events_file = text("events_file");
    target.http = text("http");
    target.http_token_file = text("http_token_file");
    target.http_rate = from.at("http_rate").to_number<double>();
    return target;
}

}  // namespace

json::object to_json(const WorkOrder& order) {
    return {{"type", "plan"},
            {"name", order.text.name},
            {"file", order.text.file},
            {"scenario", order.text.text},
            {"set", json::value_from(order.overrides)},
            {"scale", order.scale},
            {"target", target_json(order.target)},
            {"worker", order.worker},
            {"workers", order.workers},
            {"run", fmt::format("{:016x}", order.run)},
            {"seed", order.seed},
            {"in_progress", order.in_progress},
            {"sources", order.sources},
            {"offset", order.clock_offset.count()}};
}

WorkOrder work_order_from(const json::object& plan) {
    const auto number = [&](const char* key) { return plan.at(key).to_number<std::uint32_t>(); };
    WorkOrder order;
    order.text.name = json::value_to<std::string>(plan.at("name"));
    order.text.file = json::value_to<std::string>(plan.at("file"));
    order.text.text = json::value_to<std::string>(plan.at("scenario"));
    order.overrides = json::value_to<std::vector<std::string>>(plan.at("set"));
    order.scale = plan.at("scale").to_number<double>();
    order.target = target_from(plan.at("target").as_object());
    order.worker = number("worker");
    order.workers = number("workers");
    order.run = std::stoull(json::value_to<std::string>(plan.at("run")), nullptr, 16);
    order.seed = plan.at("seed").to_number<std::uint64_t>();
    order.in_progress = number("in_progress");
    order.sources = number("sources");
    order.clock_offset = Duration(plan.at("offset").to_number<std::int64_t>());
    if (order.workers == 0 || order.worker >= order.workers)
        throw std::runtime_error("a plan for a worker that does not exist");
    return order;
}

Assignment assignment_of(const WorkOrder& order) {
    std::vector<Setting> overrides;
    for (const auto& text : order.overrides) overrides.push_back(read_override(text));
    Assignment assignment;
    assignment.scenario = parse_scenario(order.text, overrides, order.scale);
    assignment.target = order.target;
    settle_transports(assignment.scenario, assignment.target);
    assignment.worker = order.worker;
    assignment.workers = order.workers;
    assignment.run = order.run;
    assignment.seed = order.seed;
    assignment.in_progress = order.in_progress;
    assignment.sources = order.sources;
    assignment.clock_offset = order.clock_offset;
    return assignment;
}

}  // namespace pulsegate::load
