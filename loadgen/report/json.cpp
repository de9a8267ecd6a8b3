#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <concepts>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "loadgen/report/hostile_effect.h"
#include "loadgen/report/record.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

constexpr std::string_view record_kind = "a run of pulsegate-loadgen";

using Outcome = CheckResult::Outcome;

// Visits the fields of each part; both directions use this list.

template <class Visit, class Machine>
void machine_fields(Visit&& visit, Machine& machine) {
    visit("cpu", machine.cpu);
    visit("cores", machine.cores);
    visit("memory", machine.memory);
    visit("system", machine.system);
    visit("files", machine.files);
    visit("ports", machine.ports);
    visit("backlog", machine.backlog);
}

template <class Visit, class Server>
void server_fields(Visit&& visit, Server& server) {
    visit("on_this_machine", server.on_this_machine);
    visit("pid", server.pid);
    visit("command", server.command);
    visit("metrics", server.metrics);
}

template <class Visit, class Record>
void record_fields(Visit&& visit, Record& record) {
    visit("version", record.version);
    visit("name", record.name);
    visit("verdict", record.verdict);
    visit("command", record.command);
    visit("scenario", record.scenario);
    visit("target", record.target);
    visit("started", record.started);
    visit("clients", record.clients);
    visit("workers", record.workers);
    visit("sources", record.sources);
    visit("interrupted", record.interrupted);
    visit("remote", record.remote);
    visit("machine", record.machine);
    visit("server", record.server);
    visit("checks", record.checks);
    visit("examples", record.examples);
    visit("notes", record.notes);
    visit("marks", record.marks);
    visit("totals", record.totals);
    visit("series", record.series);
}

// -- to JSON

json::value value_of(const std::string& text) { return json::value(text); }
json::value value_of(bool flag) { return json::value(flag); }
json::value value_of(std::integral auto number) { return json::value(number); }
json::value value_of(const Measurements& measured) { return to_json(measured); }
json::value value_of(const Mark& mark) { return {{"at", mark.at}, {"text", mark.text}}; }

json::value value_of(const CheckResult& check) { return to_json(check); }

json::value value_of(const Stretch& stretch) {
    json::object object{{"second", stretch.second}, {"length", stretch.length}};
    for (auto& [name, value] : to_json(stretch.measured)) object[name] = std::move(value);
    return object;
}

json::value value_of(const MachineDescription& machine) {
    json::object object;
    machine_fields([&](const char* name, const auto& field) { object[name] = value_of(field); },
                   machine);
    return object;
}

json::value value_of(const ServerDescription& server) {
    json::object object;
    server_fields([&](const char* name, const auto& field) { object[name] = value_of(field); },
                  server);
    return object;
}

/// This follows from the series. It is written for people who read the file.
json::value value_of(const HostileEffect& effect) {
    json::array rows;
    for (const auto& [label, unit, before, with] : effect_rows(effect))
        rows.push_back(json::object{{"what", label},
                                    {"before", json::value_from(before)},
                                    {"with", json::value_from(with)}});
    return rows;
}

template <class Element>
json::value value_of(const std::vector<Element>& elements) {
    json::array array;
    array.reserve(elements.size());
    for (const auto& element : elements) array.push_back(value_of(element));
    return array;
}

// -- from JSON: fields that are missing keep their default; those of another type throw

void unpack(const json::value& value, std::string& text) { text = value.as_string(); }
void unpack(const json::value& value, bool& flag) { flag = value.as_bool(); }
void unpack(const json::value& value, double& number) { number = value.to_number<double>(); }

template <std::integral Number>
void unpack(const json::value& value, Number& number) {
    number = value.to_number<Number>();
}

void unpack(const json::value& value, Measurements& measured) {
    measured = measurements_from(value);
}

/// Reads fields of an object by name.
class Fields {
public:
    explicit Fields(const json::value& value) : object_(value.as_object()) {}

    template <class Field>
    void operator()(std::string_view name, Field& field) const;

private:
    const json::object& object_;
};

Outcome outcome_named(std::string_view name) {
    for (const auto outcome : {Outcome::passed, Outcome::failed, Outcome::refused})
        if (name == word(outcome)) return outcome;
    return Outcome::skipped;
}

void unpack(const json::value& value, Mark& mark) {
    const Fields fields(value);
    fields("at", mark.at);
    fields("text", mark.text);
}

void unpack(const json::value& value, CheckResult& check) {
    const Fields fields(value);
    std::string outcome;
    fields("name", check.name);
    fields("promise", check.promise);
    fields("outcome", outcome);
    fields("value", check.value);
    fields("detail", check.detail);
    check.outcome = outcome_named(outcome);
}

void unpack(const json::value& value, Stretch& stretch) {
    const Fields fields(value);
    fields("second", stretch.second);
    fields("length", stretch.length);
    if (stretch.length == 0) throw std::runtime_error("a stretch of no length");
    stretch.measured = measurements_from(value);
}

void unpack(const json::value& value, MachineDescription& machine) {
    machine_fields(Fields(value), machine);
}

void unpack(const json::value& value, ServerDescription& server) {
    server_fields(Fields(value), server);
}

template <class Element>
void unpack(const json::value& value, std::vector<Element>& elements) {
    for (const auto& each : value.as_array()) unpack(each, elements.emplace_back());
}

template <class Field>
void Fields::operator()(std::string_view name, Field& field) const {
    const auto* value = object_.if_contains(name);
    if (!value) return;
    try {
        unpack(*value, field);
    } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("'{}': {}", name, error.what()));
    }
}

}  // namespace

json::value to_json(const CheckResult& check) {
    return {{"name", check.name},
            {"promise", check.promise},
            {"outcome", word(check.outcome)},
            {"value", check.value},
            {"detail", check.detail}};
}

std::string record_text(const RunRecord& record) {
    json::object object{{"kind", record_kind}};
    record_fields([&](const char* name, const auto& field) { object[name] = value_of(field); },
                  record);
    if (const auto effect = hostile_effect(record)) object["hostile_effect"] = value_of(*effect);
    return json::serialize(object) + "\n";
}

RunRecord record_from(std::string_view text) {
    boost::system::error_code broken;
    const json::value value = json::parse(json::string_view(text.data(), text.size()), broken);
    if (broken) throw std::runtime_error("no JSON: " + broken.message());
    const auto* object = value.if_object();
    const auto* kind = object ? object->if_contains("kind") : nullptr;
    if (!kind || !kind->is_string() || kind->as_string() != record_kind)
        throw std::runtime_error("JSON, but not of a run");

    RunRecord record;
    record_fields(Fields(value), record);
    return record;
}

RunRecord read_record(const std::string& file) try {
    std::ifstream in(file);
    if (!in) throw std::runtime_error("it can't be opened");
    std::ostringstream text;
    text << in.rdbuf();
    return record_from(text.str());
} catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{} is not a result of a run: {}", file, error.what()));
}

void write_record(const RunRecord& record, const std::string& file) {
    std::ofstream out(file);
    out << record_text(record) << std::flush;
    if (!out) throw std::runtime_error(file + " can't be written");
}

}  // namespace pulsegate::load
