#pragma once

#include <stdexcept>

namespace pulsegate {

/// What is wrong with a request. Handlers throw it; `Api::answer` replies 400 with its text.
class BadRequest : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace pulsegate
