#pragma once

#include <boost/json/object.hpp>
#include <span>

#include "loadgen/report/record.h"

namespace pulsegate::load {

/// What the page shows, as its script `page/report.js` reads it: texts that are ready to be shown,
/// and numbers for the plots.
boost::json::object page_data(std::span<const RunRecord> records);

}  // namespace pulsegate::load
