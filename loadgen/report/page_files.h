#pragma once

#include <string_view>

/// The files of `page/` and Debian's Chart.js, embedded when the generator is built.
namespace pulsegate::load::page_files {

extern const std::string_view html;
extern const std::string_view style;
extern const std::string_view plots;
extern const std::string_view script;
extern const std::string_view chart;

}  // namespace pulsegate::load::page_files
