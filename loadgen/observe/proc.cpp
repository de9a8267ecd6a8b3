#include "loadgen/observe/proc.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

namespace pulsegate::load {

namespace {

/// Removes the next word from the front of `text`.
std::string_view take_word(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    const auto word = text.substr(0, text.find_first_of(" \t\n"));
    text.remove_prefix(word.size());
    return word;
}

template <class Number, class... Base>
std::optional<Number> number_in(std::string_view word, Base... base) {
    Number number{};
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), number, base...);
    if (error != std::errc() || end != word.data() + word.size()) return {};
    return number;
}

/// Parses "0100007F", or four such words. Each word is a number in this machine's byte order.
std::string address_in(std::string_view hex) {
    std::array<std::uint32_t, 4> words{};
    const std::size_t count = hex.size() / 8;
    if ((count != 1 && count != 4) || hex.size() % 8 != 0) return {};
    for (std::size_t at = 0; at < count; ++at) {
        const auto word = number_in<std::uint32_t>(hex.substr(at * 8, 8), 16);
        if (!word) return {};
        words[at] = *word;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = count == 1 ? AF_INET : AF_INET6;
    return inet_ntop(family, words.data(), text.data(), text.size()) ? text.data() : "";
}

std::optional<ListeningSocket> listening_socket(std::string_view line) {
    constexpr std::string_view listening = "0A";
    take_word(line);  // its number in the table
    const auto local = take_word(line);
    take_word(line);  // the remote end
    if (take_word(line) != listening) return {};
    for (int unused = 0; unused < 5; ++unused) take_word(line);  // queues, timers, user, timeout

    const auto colon = std::min(local.find(':'), local.size());
    const auto port = number_in<std::uint16_t>(local.substr(std::min(colon + 1, local.size())), 16);
    const auto inode = number_in<std::uint64_t>(take_word(line));
    auto address = address_in(local.substr(0, colon));
    if (!port || !inode || address.empty()) return {};
    return ListeningSocket{std::move(address), *port, *inode};
}

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        visit(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

}  // namespace

std::vector<ListeningSocket> listening_sockets(std::string_view net_tcp) {
    std::vector<ListeningSocket> sockets;
    for_each_line(net_tcp, [&](std::string_view line) {
        if (auto socket = listening_socket(line)) sockets.push_back(std::move(*socket));
    });
    return sockets;
}

// The process's name is in parentheses, and may itself contain spaces and parentheses.
std::optional<ProcessStat> process_stat(std::string_view stat, long ticks_a_second, long page) {
    const auto name_end = stat.rfind(')');
    if (name_end == std::string_view::npos || ticks_a_second <= 0) return {};
    stat.remove_prefix(name_end + 1);
    std::array<double, 22> fields{};  // from the third one, the state, on
    take_word(stat);
    for (std::size_t at = 1; at < fields.size(); ++at) {
        const auto number = number_in<double>(take_word(stat));
        if (!number) return {};
        fields[at] = *number;
    }
    const double ticks = fields[14 - 3] + fields[15 - 3];
    ProcessStat read;
    read.cpu = from_seconds(ticks / static_cast<double>(ticks_a_second));
    read.threads = static_cast<std::uint32_t>(fields[20 - 3]);
    read.memory = static_cast<std::uint64_t>(fields[24 - 3] * static_cast<double>(page));
    return read;
}

std::optional<CpuTicks> cpu_ticks(std::string_view stat) {
    if (take_word(stat) != "cpu") return {};
    // user nice system idle iowait irq softirq steal; time of guests is part of user and nice
    std::array<double, 8> fields{};
    for (auto& field : fields) {
        const auto number = number_in<double>(take_word(stat));
        if (!number) return {};
        field = *number;
    }
    CpuTicks ticks;
    ticks.busy = fields[0] + fields[1] + fields[2];
    ticks.stolen = fields[7];
    for (const double field : fields) ticks.all += field;
    return ticks;
}

std::optional<Duration> waited_for_cpu(std::string_view schedstat) {
    take_word(schedstat);  // how long it ran
    const auto nanoseconds = number_in<std::int64_t>(take_word(schedstat));
    if (!nanoseconds) return {};
    return std::chrono::nanoseconds(*nanoseconds);
}

std::string_view field_of(std::string_view text, std::string_view name) {
    std::string_view found;
    for_each_line(text, [&](std::string_view line) {
        if (!found.empty() || !line.starts_with(name)) return;
        line.remove_prefix(name.size());
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (!line.starts_with(':')) return;
        line.remove_prefix(std::min(line.find_first_not_of(" \t", 1), line.size()));
        found = line;
    });
    return found;
}

std::string text_of_file(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
}

}  // namespace pulsegate::load
