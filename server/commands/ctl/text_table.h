#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace pulsegate {

/// A member of the objects in a list, and the heading of its column.
struct TableColumn {
    std::string_view member;
    std::string_view title;
};

/// The list as lines of text, with aligned columns. A column without any value is left out.
std::string text_table(const boost::json::array& rows, std::initializer_list<TableColumn> columns);

/// A value as text for a terminal: texts without control characters, "" for null.
std::string plain_text(const boost::json::value& value);

/// The member of an object, by a path such as "clients.connected"; null if there is none.
const boost::json::value& member_at(const boost::json::value& object, std::string_view path);
/// Deleted, because the result would refer into a temporary.
const boost::json::value& member_at(boost::json::value&& object, std::string_view path) = delete;
std::int64_t number_at(const boost::json::value& object, std::string_view path);

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t number);
/// Bytes as "1.5 MiB".
std::string size_text(std::int64_t bytes);
/// Seconds as "3 h 12 min".
std::string span_text(std::int64_t seconds);

}  // namespace pulsegate
