#pragma once

#include <boost/json/object.hpp>
#include <span>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// The data of the page for its script `page/report.js`: finished texts, and numbers for the plots.
boost::json::object page_data(std::span<const RunRecord> records);

}  // namespace pulsegate::load
