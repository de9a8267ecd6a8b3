#include "loadgen/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "loadgen/stamp.h"

namespace pulsegate::load {

namespace {

constexpr const char* description =
    "Loads an MQTT gateway with clients that talk and clients that fall silent, and checks that\n"
    "no client that kept talking was closed, every silent client was closed no earlier than its\n"
    "limit and at most one tick (1 s) later, and every message arrived exactly once.";

constexpr const char* examples =
    "Examples:\n"
    "  pulsegate-loadgen\n"
    "      as many clients as the machine allows, at most 15,000, with 3,000 packets a second\n"
    "  pulsegate-loadgen --clients 1000 --keepalive 2s --silent 50% --duration 10s\n"
    "      a short check of the expiry\n"
    "  pulsegate-loadgen --clients 100000 --ramp 5000/s --messages 0 --json run.json\n"
    "      many idle clients; needs a file limit above 100,050 here and at the server\n"
    "  pulsegate-loadgen --clients 16000 --storm 15000\n"
    "      1,000 clients keep talking while 15,000 vanish and reconnect\n"
    "\n"
    "Exit status: 0 every check passed, 1 a check failed or the run could not start,\n"
    "130 interrupted.";

template <class Least, class Most>
std::uint64_t count_between(std::string_view text, Least least, Most most) {
    const auto count = parse_count(text);
    if (count < least || count > most)
        throw std::invalid_argument(fmt::format("write a number from {} to {}", least, most));
    return count;
}

std::uint32_t parse_clients(std::string_view text) {
    return static_cast<std::uint32_t>(count_between(text, 1u, 10'000'000u));
}

double parse_ramp(std::string_view text) {
    const double rate = parse_rate(text);
    if (rate <= 0) throw std::invalid_argument("write a rate above 0, such as 2000/s");
    return rate;
}

// In CONNECT it is a 16-bit number of seconds, and with 0 no client would ever be closed.
std::chrono::seconds parse_keepalive(std::string_view text) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(parse_duration(text));
    if (whole != parse_duration(text) || whole.count() < 1 || whole.count() > 65535)
        throw std::invalid_argument("write whole seconds from 1s to 65535s");
    return whole;
}

Duration parse_positive(std::string_view text) {
    const auto duration = parse_duration(text);
    if (duration <= Duration::zero()) throw std::invalid_argument("write a time above 0");
    return duration;
}

std::optional<double> parse_messages(std::string_view text) {
    if (text == "fill") return std::nullopt;
    return parse_rate(text);
}

QoS parse_qos(std::string_view text) {
    if (text == "0") return QoS::at_most_once;
    if (text == "1") return QoS::at_least_once;
    throw std::invalid_argument("write 0 or 1");
}

Version parse_version(std::string_view text) {
    if (text == "3.1.1" || text == "4") return Version::v3_1_1;
    if (text == "5" || text == "5.0") return Version::v5_0;
    throw std::invalid_argument("write 3.1.1 or 5");
}

std::uint32_t parse_size(std::string_view text) {
    return static_cast<std::uint32_t>(count_between(text, Stamp::size, 32'768u));
}

double parse_factor(std::string_view text) {
    try {
        if (const double factor = parse_rate(text); factor >= 1 && !text.ends_with("/s"))
            return factor;
    } catch (const std::invalid_argument&) {
    }
    throw std::invalid_argument("write a number from 1, such as 5");
}

std::uint32_t parse_in_progress(std::string_view text) {
    return static_cast<std::uint32_t>(count_between(text, 1u, 100'000u));
}

std::uint32_t parse_sources(std::string_view text) {
    return static_cast<std::uint32_t>(count_between(text, 1u, 1'000'000u));
}

std::string parse_file(std::string_view text) {
    if (text.empty()) throw std::invalid_argument("write a file name, or - for standard output");
    return std::string(text);
}

/// Binds options to the variables for their values.
class Binder {
public:
    explicit Binder(CLI::App& app) : app_(app) {}

    template <class Target, class Value>
    void add(const char* name, const char* type, Target& target, Value (*parse)(std::string_view),
             const char* standard, const char* help) {
        const auto set = [name, &target, parse](const std::string& text) {
            try {
                target = parse(text);
            } catch (const std::invalid_argument& remedy) {
                throw std::runtime_error(fmt::format("{} '{}': {}", name, text, remedy.what()));
            }
        };
        auto* option = app_.add_option_function<std::string>(name, set, help);
        option->type_name(type)->default_str(standard)->group(group_);
    }

    void group(const char* name) { group_ = name; }

private:
    CLI::App& app_;
    std::string group_;
};

void bind(CLI::App& app, Options& options) {
    Binder binder(app);
    binder.group("Load");
    binder.add("--connect", "URL", options.connect, parse_address, "mqtt://127.0.0.1:1883",
               "the server; towards a loopback server, clients come from\nmany loopback addresses");
    binder.add("--clients", "N", options.clients, parse_clients, "15000",
               "number of clients; the default is lower if the file limit is");
    binder.add("--ramp", "RATE", options.ramp, parse_ramp, "2000/s", "new connections a second");
    binder.add("--keepalive", "TIME", options.keepalive, parse_keepalive, "20s",
               "keepalive of the clients; talkers ping after 0.75 to 1.0 of it");
    binder.add("--messages", "RATE|fill", options.messages, parse_messages, "fill",
               "one-to-one messages a second between talkers; fill: 3,000 packets\na second from "
               "all clients, less their pings");
    binder.add("--silent", "PERCENT", options.silent, parse_percent, "5%",
               "clients that stop sending without closing");
    binder.add("--duration", "TIME", options.duration, parse_positive, "45s",
               "from the end of the ramp; extended until the silent clients\ncan be judged");

    binder.group("Messages");
    binder.add("--qos", "0|1", options.qos, parse_qos, "0", "QoS of messages and subscriptions");
    binder.add("--mqtt-version", "3.1.1|5", options.version, parse_version, "3.1.1",
               "protocol version");
    binder.add("--size", "BYTES", options.size, parse_size, "64", "size of a message's payload");
    binder.add("--drain", "TIME", options.drain, parse_duration, "5s",
               "how long to wait at the end for messages in flight");

    binder.group("Checks");
    binder.add("--limit", "TIME", options.limit, parse_positive, "1.5 keepalives",
               "silence after which the server must close; an MQTT 5 Server\nKeep Alive overrides "
               "the default");
    binder.add("--tolerance", "TIME", options.tolerance, parse_duration, "100ms",
               "allowance for delays of the machine, beyond limit and tick");
    binder.add("--silent-after", "TIME", options.silent_after, parse_duration, "0s",
               "when the first clients fall silent, from the end of the ramp");
    binder.add("--silent-over", "TIME", options.silent_over, parse_duration, "keepalive/2",
               "time within which clients fall silent, each at a random moment");

    binder.group("Storm");
    binder.add("--storm", "N|PERCENT", options.storm, parse_share, "0",
               "how many of the clients vanish at once and reconnect at once;\nthe others' latency "
               "is compared with that before");
    binder.add("--storm-after", "TIME", options.storm_after, parse_positive, "10s",
               "quiet time before the storm, from the end of the ramp");
    binder.add("--storm-within", "TIME", options.storm_within, parse_positive, "60s",
               "time within which all must be back");
    binder.add("--storm-factor", "N", options.storm_factor, parse_factor, "5",
               "the others' p99 in the storm may be this many times the one\nbefore");

    binder.group("Machine");
    binder.add("--in-progress", "N", options.in_progress, parse_in_progress, "200",
               "logins in progress at once, at most");
    binder.add("--sources", "N", options.sources, parse_sources, "auto",
               "loopback source addresses to spread the clients over");
    binder.add("--json", "FILE", options.json, parse_file, "",
               "write settings, results and checks; - is standard output");
}

}  // namespace

std::variant<Options, Answer> parse_options(int argc, const char* const* argv) {
    CLI::App app(description, "pulsegate-loadgen");
    app.get_formatter()->column_width(30);
    app.footer(examples);
    app.set_version_flag("--version", "pulsegate-loadgen " PULSEGATE_VERSION);

    Options options;
    bind(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        return Answer{app.help()};
    } catch (const CLI::CallForVersion& version) {
        return Answer{std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        throw std::runtime_error(std::string(error.what()) + "; --help lists the options");
    }
    return options;
}

}  // namespace pulsegate::load
