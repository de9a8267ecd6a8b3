#pragma once

namespace pulsegate {

/// For std::unique_ptr: frees an object of a C library with this function.
template <auto function>
struct FreeWith {
    template <class T>
    void operator()(T* object) const {
        function(object);
    }
};

}  // namespace pulsegate
