#pragma once

#include <spdlog/fmt/fmt.h>

#include <string>
#include <string_view>

#include "server/session/terms/link.h"

namespace pulsegate {

struct LogFields;

/// A client's name in log lines: `10.0.0.7:49152 client 'phone' of user 'bob'`, without the address
/// while the client is absent. It is a view that is read when it is formatted.
struct LoggedClient {
    const Link* link;  ///< null: the client is away
    std::string_view client;
    std::string_view user;
    std::string_view peer{};  ///< peer of the link; "": the link is asked, which takes a system
                              ///< call

    std::string from() const;
    void tell(LogFields& fields) const;
};

}  // namespace pulsegate

template <>
struct fmt::formatter<pulsegate::LoggedClient> {
    constexpr auto parse(format_parse_context& context) { return context.begin(); }
    format_context::iterator format(const pulsegate::LoggedClient& logged,
                                    format_context& context) const;
};
