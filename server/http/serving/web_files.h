#pragma once

#include <string>
#include <string_view>

namespace pulsegate {

struct ApiReply;

/// A file of a web page, which the build has put into the program.
struct WebFile {
    std::string_view path;  ///< the path in its URL
    const char* content_type;
    std::string_view text;
};

/// Null if no page has such a file.
const WebFile* find_web_file(std::string_view path);

/// The file, with a policy that lets a page load files of the gateway and connect to the sources in
/// `connect_to` (Content Security Policy Level 3, connect-src), and nothing else. So no markup in a
/// name or message can run.
ApiReply web_file_reply(const WebFile& file, const std::string& connect_to = "'self'");

}  // namespace pulsegate
