#pragma once

#include <stdexcept>
#include <string>

#include "server/http/serving/api_error.h"

namespace pulsegate {

/// A mistake in a request. Handlers throw it; `Api::answer` replies 400 with its text and code.
class BadRequest : public std::runtime_error {
public:
    BadRequest(ApiError about, const std::string& what)
        : std::runtime_error(what), error(about), sentence(what) {}

    const ApiError error;
    const std::string sentence;  ///< unlike `what`, it does not end at a null character
};

}  // namespace pulsegate
