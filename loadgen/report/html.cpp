#include "loadgen/report/html.h"

#include <boost/json/serialize.hpp>

#include "loadgen/report/page_data.h"
#include "loadgen/report/page_files.h"

namespace pulsegate::load {

namespace {

/// JSON that may be placed inside a script element: no text in it can end the element.
std::string script_text(const boost::json::value& value) {
    const std::string text = boost::json::serialize(value);
    std::string safe;
    safe.reserve(text.size());
    for (const char c : text) {
        if (c == '<')
            safe += "\\u003c";
        else
            safe += c;
    }
    return safe;
}

void fill_in(std::string& page, std::string_view place, std::string_view text) {
    if (const auto at = page.find(place); at != std::string::npos)
        page.replace(at, place.size(), text);
}

}  // namespace

std::string html_report(std::span<const RunRecord> records) {
    std::string page(page_files::html);
    // The records come last: nothing is filled in at a text of theirs such as {{script}}.
    fill_in(page, "{{style}}", page_files::style);
    fill_in(page, "{{chart}}", page_files::chart);
    fill_in(page, "{{plots}}", page_files::plots);
    fill_in(page, "{{script}}", page_files::script);
    fill_in(page, "{{data}}", script_text(page_data(records)));
    return page;
}

}  // namespace pulsegate::load
