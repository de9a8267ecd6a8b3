#include "server/auth/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/base/files/unique_fd.h"
#include "server/base/files/whole_file.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

std::runtime_error trouble(const std::string& path, std::string_view what) {
    return std::runtime_error(
        fmt::format("{}: {}: {}", path, what, std::system_category().message(errno)));
}

std::string warning_about(const std::string& path, mode_t mode) {
    if ((mode & (S_IRWXO | S_IWGRP)) == 0) return "";
    return fmt::format("{}: others may {} it; chmod 600 {}", path,
                       mode & (S_IWGRP | S_IWOTH) ? "change" : "read", path);
}

/// A new file beside the target: it is deleted unless it was renamed to the target.
class Draft {
public:
    explicit Draft(const std::string& target)
        : path_(target + ".XXXXXX"), fd_(::mkostemp(path_.data(), O_CLOEXEC)) {
        if (!fd_) throw trouble(target, "can't write a new file beside it");
    }
    ~Draft() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;

    void inherit(const struct stat& old) {
        struct stat now {};
        ::fstat(fd_.get(), &now);
        const bool same = now.st_uid == old.st_uid && now.st_gid == old.st_gid;
        if (!same && ::fchown(fd_.get(), old.st_uid, old.st_gid) != 0)
            throw trouble(path_, "can't keep the file's owner; run this as its owner or as root");
        if (::fchmod(fd_.get(), (old.st_mode & S_IRGRP) | S_IRUSR | S_IWUSR) != 0)
            throw trouble(path_, "can't set the file's mode");
    }

    void write(std::string_view text) {
        while (!text.empty()) {
            const auto written = ::write(fd_.get(), text.data(), text.size());
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) throw trouble(path_, "can't be written");
            text.remove_prefix(static_cast<std::size_t>(written));
        }
        if (::fsync(fd_.get()) != 0) throw trouble(path_, "can't be written");
    }

    void rename_to(const std::string& target) {
        if (std::rename(path_.c_str(), target.c_str()) != 0)
            throw trouble(target, "can't be replaced");
        path_.clear();
    }

private:
    std::string path_;
    UniqueFd fd_;
};

}  // namespace

SecretFile read_secret_file(const std::string& path) {
    WholeFile file = read_whole_file(path);
    return {std::move(file.text), warning_about(path, file.mode)};
}

std::string read_token(const std::string& setting, const std::string& path) {
    SecretFile file;
    try {
        file = read_secret_file(path);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("{}: {}", setting, error.what()));
    }
    if (!file.warning.empty()) spdlog::warn("{}: {}", setting, file.warning);
    Lines lines(file.text);
    if (!lines.next()) return "";
    if (line_with_null(lines.line()) > 0)
        throw std::runtime_error(
            fmt::format("{}: {}:1: has a null character; save the file as UTF-8", setting, path));
    return std::string(lines.line().substr(0, lines.line().find('\r')));
}

std::string read_bearer_token(const std::string& setting, const std::string& path) {
    std::string token = read_token(setting, path);
    const bool fits =
        std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (token.empty() || !fits)
        throw std::runtime_error(fmt::format(
            "{}: {}: its first line is not a token; write one of visible ASCII characters without "
            "blanks",
            setting, path));
    return token;
}

void replace_secret_file(const std::string& path, const std::string& text) {
    // A symbolic link stays; the file that it names is replaced.
    std::error_code missing;
    const auto canonical = fs::canonical(path, missing);
    const std::string target = missing ? path : canonical.string();

    Draft draft(target);
    struct stat old {};
    if (::stat(target.c_str(), &old) == 0) draft.inherit(old);
    draft.write(text);
    draft.rename_to(target);

    const auto folder = fs::absolute(target).parent_path();
    const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened) ::fsync(opened.get());  // so that the rename survives a power failure
}

}  // namespace pulsegate
