#pragma once

#include <concepts>

namespace pulsegate {

/// Several lambdas as one visitor of a variant.
template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 14 does not deduce it

/// A parameter of such a visitor that stands for several types. Unlike one that takes all types, it
/// lets the compiler find an alternative that is missing.
template <class Type, class... Types>
concept OneOf = (std::same_as<Type, Types> || ...);

}  // namespace pulsegate
