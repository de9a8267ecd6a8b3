#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/scenario/parser.h"
#include "loadgen/swarm/assignment.h"

namespace pulsegate::load {

/// The definition of a run, before its scenario has been read. It fits into a message, and every
/// worker makes the same run from it.
struct WorkOrder {
    ScenarioText text;
    std::vector<std::string> overrides;  ///< "key=value" or "group.key=value"
    double scale = 1;
    Target target;
    std::uint32_t worker = 0;
    std::uint32_t workers = 1;
    std::uint64_t run = 0;
    std::uint64_t seed = 0;
    std::uint32_t in_progress = 200;
    std::uint32_t sources = 0;
    Duration clock_offset{};
};

/// The "plan" message to a worker. Both directions; `work_order_from` throws `std::exception` if
/// something is missing.
boost::json::object to_json(const WorkOrder& order);
WorkOrder work_order_from(const boost::json::object& plan);

/// Throws `std::runtime_error` if the scenario is not valid.
Assignment assignment_of(const WorkOrder& order);

}  // namespace pulsegate::load
