#pragma once

#include <string>
#include <vector>

#include "loadgen/torture/book.h"
#include "loadgen/torture/options.h"

namespace pulsegate::torture {

struct Results {
    Book book;
    Time began{};  ///< when the first message was sent
    std::vector<Time> kills;
    std::vector<Duration> starts;   ///< how long the port was closed, after each kill
    std::vector<std::string> ends;  ///< how the broker ended by itself
};

/// Something was published, and nothing that was promised is broken.
bool passed(const Results& results);

/// The loss matrix, and below it what went wrong, for people.
std::string table(const Options& options, const Results& results);
std::string as_json(const Options& options, const Results& results);

}  // namespace pulsegate::torture
