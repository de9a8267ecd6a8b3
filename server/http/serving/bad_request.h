#pragma once

#include <stdexcept>
#include <string>

#include "server/http/serving/api_error.h"

namespace pulsegate {

/// What is wrong with a request. Handlers throw it; `Api::answer` replies 400 with its text and
/// code.
class BadRequest : public std::runtime_error {
public:
    BadRequest(ApiError about, const std::string& sentence)
        : std::runtime_error(sentence), error(about) {}

    const ApiError error;
};

}  // namespace pulsegate
