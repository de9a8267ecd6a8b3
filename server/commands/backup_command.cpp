#include "server/commands/backup_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "server/auth/secret_file.h"

namespace pulsegate {

namespace {

namespace web = boost::beast::http;

/// Where a gateway's HTTP API listens.
struct ApiPlace {
    std::string authority;  ///< as it is written in the URL
    std::string host;
    std::string port = "8080";
};

ApiPlace parse_api_url(std::string_view url) {
    constexpr std::string_view scheme = "http://";
    const auto fail = [url] {
        return std::runtime_error(
            fmt::format("--admin: '{}' is no URL such as http://127.0.0.1:8080", url));
    };
    if (!url.starts_with(scheme)) throw fail();
    std::string_view rest = url.substr(scheme.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.find('/') != rest.npos) throw fail();
    ApiPlace place{.authority = std::string(rest), .host = {}};
    const auto colon = rest.rfind(':');
    if (colon != rest.npos && rest.find(']', colon) == rest.npos) {
        place.port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
    }
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    place.host = rest;
    if (place.host.empty()) throw fail();
    return place;
}

using ApiAnswer = web::response<web::string_body>;

ApiAnswer ask_gateway(const ApiPlace& place, const web::request<web::string_body>& request) try {
    using boost::asio::ip::tcp;
    boost::asio::io_context io;
    tcp::socket socket(io);
    boost::asio::connect(socket, tcp::resolver(io).resolve(place.host, place.port));
    web::write(socket, request);
    boost::beast::flat_buffer buffer;
    ApiAnswer answer;
    web::read(socket, buffer, answer);  // for as long as the backup takes
    return answer;
} catch (const boost::system::system_error& error) {
    throw std::runtime_error(
        fmt::format("http://{}: {}; --admin names the HTTP listener of a gateway that runs",
                    place.authority, error.code().message()));
}

/// Returns what there is to say about the backup.
std::string order_backup(const ApiPlace& place, const std::string& token, const std::string& file,
                         bool overwrite) {
    web::request<web::string_body> request(web::verb::post, "/api/v1/backup", 11);
    request.set(web::field::host, place.authority);
    request.set(web::field::content_type, "application/json");
    if (!token.empty()) request.set(web::field::authorization, "Bearer " + token);
    request.body() =
        boost::json::serialize(boost::json::object{{"file", file}, {"overwrite", overwrite}});
    request.prepare_payload();
    const ApiAnswer answer = ask_gateway(place, request);

    boost::system::error_code error;
    const auto parsed = boost::json::parse(answer.body(), error);
    if (error || !parsed.is_object())
        throw std::runtime_error(fmt::format("http://{} is not a gateway's HTTP API: it answers {}",
                                             place.authority, answer.result_int()));
    const auto& said = parsed.get_object();
    if (const auto* const trouble = said.if_contains("error"))
        throw std::runtime_error(std::string(trouble->as_string()));
    return fmt::format("{}: {} bytes in {:.2f} s", file, said.at("bytes").to_number<double>(),
                       said.at("milliseconds").to_number<double>() / 1000);
}

}  // namespace

int backup_command(int argc, const char* const* argv) {
    std::string file;
    std::string url = "http://127.0.0.1:8080";
    std::string token_file;
    bool overwrite = false;

    CLI::App app{
        "Has a running gateway copy all that it stores to a file, while it goes on serving. The "
        "gateway itself writes the file, on its own machine.",
        "pulsegate backup"};
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.add_option("FILE", file, "The copy, outside of the gateway's data folder")
        ->type_name("")
        ->required();
    app.add_option("--admin", url, "The gateway's HTTP listener")
        ->type_name("URL")
        ->capture_default_str();
    app.add_option("--admin-token-file", token_file, "The token that the gateway asks for")
        ->type_name("FILE");
    app.add_flag("--overwrite", overwrite, "Replace the file if it is there");

    try {
        app.parse(argc, argv);
        const auto place = parse_api_url(url);
        std::string token;
        if (!token_file.empty()) token = read_token("admin-token-file", token_file);
        fmt::print("{}\n",
                   order_backup(place, token, std::filesystem::absolute(file).string(), overwrite));
        return 0;
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "pulsegate backup: {}; see --help\n", error.what());
    } catch (const std::exception& error) {
        fmt::print(stderr, "pulsegate backup: {}\n", error.what());
    }
    return 1;
}

}  // namespace pulsegate
