#pragma once

namespace pulsegate {

/// Several lambdas as one visitor of a variant.
template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 14 does not deduce it

}  // namespace pulsegate
