#include "server/start/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "server/auth/admin_tokens.h"
#include "server/base/files/whole_file.h"
#include "server/login/authenticator.h"
#include "server/start/listen_address.h"
#include "server/transport/tls/tls.h"

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

/// Runs the checks of a start, each for itself, and keeps what they throw.
class StartCheck {
public:
    explicit StartCheck(const Config& config) : config_(config) {}

    std::vector<std::string> faults() {
        for (const ListenUrl& url : config_.listen)
            attempt([&] { check_public(config_, url, resolve(url)); });
        attempt([this] { check_ports(); });
        check_users();
        if (std::ranges::any_of(config_.listen, &ListenUrl::has_tls) && has_certificates())
            attempt([this] { Tls{config_.tls}; });
        attempt([this] { read_admin_tokens(config_.admin_token_file, config_.admin_tokens_file); });
        if (config_.webhook.url) attempt([this] { Webhook{config_.webhook}; });
        attempt([this] { check_events_file(); });
        if (!config_.data.empty()) attempt([this] { check_data_folder(); });
        const ClusterSettings& cluster = config_.cluster;
        check_file("cluster-ca", cluster.redis_ca);
        check_file("link-cert", cluster.link_cert);
        check_file("link-key", cluster.link_key);
        check_file("link-ca", cluster.link_ca);
        return std::move(faults_);
    }

private:
    void attempt(const std::function<void()>& step) {
        try {
            step();
        } catch (const std::exception& error) {
            faults_.emplace_back(error.what());
        }
    }

    /// Whether other processes have the ports is not for a check: it may run beside the gateway.
    void check_ports() const {
        const auto& all = config_.listen;
        for (auto one = all.begin(); one != all.end(); ++one)
            for (auto other = all.begin(); other != one; ++other)
                if (one->port != 0 && excludes(*one, *other))
                    throw ConfigError(
                        fmt::format("listen: {}: --listen {} has the port; choose another port, or "
                                    "remove one of them",
                                    one->text(), other->text()));
    }

    /// Else it was told already how they fit together.
    bool has_certificates() const {
        const Tls::Settings& tls = config_.tls;
        return !tls.certificates.empty() && tls.certificates.size() == tls.keys.size();
    }

    void check_file(const char* setting, const std::string& path) {
        if (!path.empty()) attempt([&] { static_cast<void>(read_whole_file(setting, path)); });
    }

    /// One by one, since an authenticator stops at the first file that it can't use.
    void check_users() {
        const AuthenticatorSettings& all = config_.authenticator;
        const auto check = [this](const auto& choose) {
            AuthenticatorSettings part;
            choose(part);
            attempt([&] { Authenticator{part}; });
        };
        check([&](auto& part) { part.password_file = all.password_file; });
        check([&](auto& part) { part.access_file = all.access_file; });
        check([&](auto& part) { part.hook = all.hook; });
        check([&](auto& part) { part.key_server = all.key_server; });
        for (const std::string& file : all.jwt.secret_files)
            check([&](auto& part) { part.jwt.secret_files = {file}; });
        for (const std::string& file : all.jwt.public_key_files)
            check([&](auto& part) { part.jwt.public_key_files = {file}; });
    }

    /// To be made in its folder, if it is not there.
    void check_events_file() const {
        const fs::path file = config_.events;
        if (file.empty() || file == "-") return;
        const bool is_there = fs::exists(file);
        if (fs::is_symlink(file) || fs::is_directory(file))
            throw ConfigError(fmt::format("events: {}: is a {}; name a writable file, or -",
                                          file.string(),
                                          fs::is_symlink(file) ? "symbolic link" : "folder"));
        const fs::path written = is_there ? file : fs::absolute(file).parent_path();
        if (::access(written.c_str(), W_OK) != 0)
            throw ConfigError(fmt::format("events: {}: {}; name a writable file, or -",
                                          file.string(), std::strerror(errno)));
    }

    /// Is made by a start with the folders above it, if it is not there.
    void check_data_folder() const {
        fs::path folder = fs::absolute(config_.data);
        if (fs::exists(folder) && !fs::is_directory(folder))
            throw ConfigError(fmt::format("data: {}: is not a folder; name one", folder.string()));
        while (!fs::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
        if (::access(folder.c_str(), W_OK | X_OK) != 0)
            throw ConfigError(
                fmt::format("data: {}: {}; name a folder that the gateway's user may write to",
                            folder.string(), std::strerror(errno)));
    }

    const Config& config_;
    std::vector<std::string> faults_{};
};

}  // namespace

std::vector<std::string> check_start(const Config& config) { return StartCheck(config).faults(); }

}  // namespace pulsegate
