#include "loadgen/observe/server_process.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "loadgen/observe/command_text.h"
#include "loadgen/observe/proc.h"

namespace pulsegate::load {

namespace fs = std::filesystem;

namespace {

bool listens_for(const ListeningSocket& socket, const std::string& address, std::uint16_t port) {
    const bool everywhere = socket.address == "0.0.0.0" || socket.address == "::";
    return socket.port == port && (everywhere || socket.address == address);
}

/// The listening sockets, named as the links in /proc/PID/fd name them.
std::set<std::string> listeners(const std::string& address, std::uint16_t port) {
    std::set<std::string> links;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"})
        for (const auto& socket : listening_sockets(text_of_file(table)))
            if (listens_for(socket, address, port))
                links.insert("socket:[" + std::to_string(socket.inode) + "]");
    return links;
}

bool has_one_of(const fs::path& process, const std::set<std::string>& links) {
    std::error_code unreadable;
    for (const auto& file : fs::directory_iterator(process / "fd", unreadable)) {
        const auto link = fs::read_symlink(file.path(), unreadable);
        if (!unreadable && links.contains(link.string())) return true;
    }
    return false;
}

std::uint32_t pid_of(const fs::path& folder) {
    const std::string name = folder.filename();
    std::uint32_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    return error == std::errc() && end == name.data() + name.size() ? pid : 0;
}

/// Newer kernels report the number of files as the size of the folder. On older kernels, the files
/// are counted.
std::uint64_t open_files(const std::string& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) == 0 && status.st_size > 0)
        return static_cast<std::uint64_t>(status.st_size);
    std::error_code unreadable;
    const fs::directory_iterator files(folder, unreadable);
    return static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace

ServerProcess::ServerProcess(std::uint32_t pid, const std::string& proc)
    : pid_(pid), folder_(proc + "/" + std::to_string(pid)) {}

std::optional<std::uint32_t> ServerProcess::listening_on(const std::string& address,
                                                         std::uint16_t port) {
    const auto links = listeners(address, port);
    if (links.empty()) return {};
    std::error_code unreadable;
    for (const auto& entry : fs::directory_iterator("/proc", unreadable))
        if (const auto pid = pid_of(entry.path()); pid != 0 && has_one_of(entry.path(), links))
            return pid;
    return {};
}

std::string ServerProcess::command() const {
    const auto text = text_of_file(folder_ + "/cmdline");
    std::vector<std::string_view> words;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\0', begin), text.size());
        words.emplace_back(text.data() + begin, end - begin);
        begin = end + 1;
    }
    return command_text(words);
}

bool ServerProcess::sample(Time now, Measurements& into) {
    const auto read =
        process_stat(text_of_file(folder_ + "/stat"), sysconf(_SC_CLK_TCK), sysconf(_SC_PAGESIZE));
    if (!read) return false;
    if (cpu_ && now > last_)
        into.set(Gauge::server_cpu, seconds(read->cpu - *cpu_) / seconds(now - last_));
    into.set(Gauge::server_memory, static_cast<double>(read->memory));
    into.set(Gauge::server_threads, read->threads);
    into.set(Gauge::server_files, static_cast<double>(open_files(folder_ + "/fd")));
    sample_wait(now, into);
    cpu_ = read->cpu;
    last_ = now;
    return true;
}

/// The thread that waited longest counts: one late event loop makes its clients late, even if the
/// others are idle.
void ServerProcess::sample_wait(Time now, Measurements& into) {
    std::map<std::string, Duration> waited;
    std::error_code unreadable;  // the process may end meanwhile
    fs::directory_iterator thread(folder_ + "/task", unreadable);
    for (; !unreadable && thread != fs::directory_iterator(); thread.increment(unreadable))
        if (const auto wait = waited_for_cpu(text_of_file(thread->path() / "schedstat")))
            waited[thread->path().filename()] = *wait;
    for (const auto& [id, wait] : waited) {
        const auto before = waited_.find(id);
        if (before == waited_.end() || now <= last_) continue;
        const double share = seconds(wait - before->second) / seconds(now - last_);
        into.set(Gauge::server_wait, std::max(share, into[Gauge::server_wait]));
    }
    waited_ = std::move(waited);
}

}  // namespace pulsegate::load
