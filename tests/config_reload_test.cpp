#include "server/settings/config_reload.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/auth/auth_cache.h"
#include "server/limits/address_limits.h"
#include "server/limits/admission.h"
#include "server/limits/login_rate.h"
#include "tests/support/parsed_settings.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

/// The settings of a file that is written anew, and what was applied last.
struct ReloadedFile {
    explicit ReloadedFile(const std::string& text, std::vector<std::string> flags = {})
        : file(text), arguments(std::move(flags)) {
        for (const char* word : {"pulsegate", "--config", file.path().c_str()})
            argv.push_back(word);
        for (const auto& argument : arguments) argv.push_back(argument.c_str());
        settings.emplace(static_cast<int>(argv.size()), argv.data(), environment);
        REQUIRE(settings->in_force().faults().empty());
    }

    ReloadOutcome reload(const std::string& text, std::vector<std::string> faults = {}) {
        std::ofstream(file.path()) << text;
        return settings->reload([&](const Config& config) {
            applied = config;
            return faults;
        });
    }

    std::string place(unsigned line) const {
        return " (" + file.path() + ":" + std::to_string(line) + ")";
    }

    SettingsFile file;
    std::vector<std::string> arguments;
    std::vector<const char*> argv{};
    const char* environment[2] = {"PULSEGATE_LOGIN_WAIT=7s", nullptr};
    std::optional<ConfigReload> settings{};
    std::optional<Config> applied{};
};

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("a reload applies live settings, and names those that need a restart") {
    ReloadedFile file("shards = 2\nidle-timeout = \"20s\"\n");
    const auto outcome = file.reload("shards = 3\nlogin-rate = 9\n");
    CHECK(outcome.faults.empty());
    CHECK(outcome.needs_restart == Told{"shards = 3" + file.place(1)});
    CHECK(outcome.applied ==
          Told{"idle-timeout = \"30s\" (default)", "login-rate = 9" + file.place(2)});
    REQUIRE(file.applied);
    CHECK(file.applied->shards == 2);
    CHECK(file.applied->idle_timeout == 30'000);
    CHECK(file.applied->admission.login_rate == 9);
    const auto again = file.reload("shards = 3\nlogin-rate = 9\n");
    CHECK(again.applied.empty());
    CHECK(again.needs_restart.size() == 1);
    CHECK(file.reload("shards = 2\nlogin-rate = 9\n").needs_restart.empty());
}

TEST_CASE("a reload with a fault applies nothing") {
    ReloadedFile file("idle-timeout = \"20s\"\npassword-file = \"users\"\n");
    const auto wrong = file.reload("idle-timeout = \"40s\"\npassword-file: \"users\"\n");
    CHECK(wrong.applied.empty());
    CHECK_FALSE(file.applied);
    REQUIRE(wrong.faults.size() == 1);
    CHECK(has(wrong.faults.front(), file.file.path() + ":2: password-file: "));
    const std::string text = "idle-timeout = \"40s\"\npassword-file = \"users\"\n";
    const auto unusable = file.reload(text, {"password-file: users: can't be read"});
    CHECK(unusable.applied.empty());
    CHECK(unusable.faults == Told{file.file.path() + ":2: password-file: users: can't be read"});
    CHECK(file.settings->in_force().config().idle_timeout == 20'000);
    CHECK(file.reload(text).applied.size() == 1);
    CHECK(file.settings->in_force().config().idle_timeout == 40'000);
}

TEST_CASE("a live setting must fit those that stay as they are until a restart") {
    ReloadedFile file("max-packet-size = \"1MiB\"\n");
    const auto outcome = file.reload("max-packet-size = \"16KiB\"\noutput-budget = \"16KiB\"\n");
    CHECK(outcome.faults ==
          Told{file.file.path() +
               ":1: max-packet-size: its new value needs a restart, and a reload with the value in "
               "force fails (" +
               file.file.path() +
               ":2: output-budget: 16384 bytes are less than max-packet-size (1048576), and a "
               "packet must fit); restart the gateway"});
    CHECK(outcome.restart_remedies_all);
    CHECK_FALSE(file.applied);
    const auto wrong = file.reload("max-packet-size = \"1MiB\"\noutput-budget = \"16KiB\"\n");
    REQUIRE(wrong.faults.size() == 1);
    CHECK(has(wrong.faults.front(), ":2: output-budget: 16384 bytes are less"));
    CHECK_FALSE(wrong.restart_remedies_all);
}

TEST_CASE("a reload that adds a TLS listener and its certificate says that it needs a restart") {
    ReloadedFile file("listen = \"mqtt://127.0.0.1:1883\"\n");
    const auto outcome = file.reload(
        "listen = \"mqtts://127.0.0.1:8883\"\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\n");
    REQUIRE(outcome.faults.size() == 1);
    CHECK(has(outcome.faults.front(), ":1: listen: its new value needs a restart"));
    CHECK(outcome.restart_remedies_all);
}

TEST_CASE(
    "a reload that fails because of a file that the settings no longer name says that it needs a "
    "restart") {
    ReloadedFile file(
        "tls-client-ca = \"old.pem\"\nlisten = \"mqtts://127.0.0.1:8883\"\n"
        "tls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\n");
    const auto outcome = file.reload(
        "listen = \"mqtts://127.0.0.1:8883\"\ntls-cert = \"cert.pem\"\n"
        "tls-key = \"key.pem\"\ntls-client-ca = \"new.pem\"\n",
        {"tls-client-ca: old.pem: can't be read", "tls-cert: cert.pem: can't be read"});
    CHECK(outcome.faults ==
          Told{file.file.path() +
                   ":4: tls-client-ca: its new value needs a restart, and a reload with the value "
                   "in force fails (tls-client-ca: old.pem: can't be read); restart the gateway",
               file.file.path() + ":2: tls-cert: cert.pem: can't be read"});
    CHECK_FALSE(outcome.restart_remedies_all);
}

TEST_CASE("the command line and variables beat the file at a reload too") {
    ReloadedFile file("", {"--idle-timeout", "20s"});
    const auto outcome = file.reload("idle-timeout = \"40s\"\nlogin-wait = \"9s\"\n");
    CHECK(outcome.applied.empty());
    CHECK(outcome.needs_restart.empty());
    REQUIRE(file.applied);
    CHECK(file.applied->idle_timeout == 20'000);
    CHECK(file.applied->login_wait == 7'000);
}

TEST_CASE("keys may be added and removed as long as there is one") {
    ReloadedFile file("jwt-key = \"a\"\n");
    CHECK(file.reload("jwt-key = [\"a\", \"b\"]\n").applied.size() == 1);
    CHECK(file.applied->authenticator.jwt.public_key_files == Told{"a", "b"});
    CHECK(file.reload("jwt-key = \"b\"\n").needs_restart.empty());
    CHECK(file.applied->authenticator.jwt.public_key_files == Told{"b"});
    CHECK(file.reload("jwt-secret = \"s\"\njwt-key = \"b\"\n").needs_restart.size() == 1);
    CHECK(file.applied->authenticator.jwt.secret_files.empty());
    CHECK(file.reload("").needs_restart.size() == 1);
    CHECK(file.applied->authenticator.jwt.public_key_files == Told{"b"});
}

TEST_CASE("limits may change while they are used") {
    LoginRate rate(1);
    CHECK(rate.take(1'000'000));
    CHECK_FALSE(rate.take(1'000'000));
    rate.use(0);
    CHECK(rate.take(1'000'000));
    rate.use(1);
    CHECK_FALSE(rate.take(1'000'000));

    AddressLimits limits({.max_connections_per_address = 1});
    const Address address = *Address::parse("192.0.2.1");
    CHECK(limits.enter(address, 0) == AddressLimits::Standing::ok);
    CHECK(limits.enter(address, 0) == AddressLimits::Standing::too_many);
    limits.use({.max_connections_per_address = 3});
    CHECK(limits.enter(address, 0) == AddressLimits::Standing::ok);
}

TEST_CASE("fewer connections than are open may be allowed, and new ones are told so") {
    constexpr std::size_t own_files = 10;
    Admission admission({.max_connections = 200}, own_files);
    for (int i = 0; i < 200; ++i) admission.opened();
    CHECK_FALSE(admission.reached());
    admission.use({.max_connections = 2}, own_files);
    CHECK(admission.capacity() == 2);
    CHECK(admission.reached() == Limit::max_connections);
    CHECK(admission.can_accept());
    admission.use({}, own_files);
    CHECK_FALSE(admission.reached());
    CHECK(admission.capacity() > 200);
}

TEST_CASE("connections of the gateway's own take room from its clients") {
    Admission admission({}, 10);
    const auto before = admission.capacity();
    admission.use({}, 15);
    CHECK(admission.capacity() == before - 5);
}

TEST_CASE("a memory budget may shrink and grow while it is used") {
    constexpr std::size_t plenty = std::size_t{1} << 40;  // whatever other tests have left in use
    Admission admission({.memory_budget = plenty}, 10);
    admission.weigh();
    CHECK_FALSE(admission.reached());
    admission.use({.memory_budget = 1024 * 1024}, 10);
    CHECK(admission.reached() == Limit::memory_budget);
    CHECK(admission.unauthenticated().budget() == 16 * 1024 * 1024);
    admission.use({.memory_budget = plenty}, 10);
    CHECK_FALSE(admission.reached());
    CHECK(admission.unauthenticated().budget() == plenty / 8);
}

TEST_CASE("with another lifetime a cache forgets what it has kept for the old one") {
    const AuthCache::Key key{};
    AuthCache cache(10'000);
    cache.put(key, {}, 0, 0);
    cache.use(20'000);
    CHECK_FALSE(cache.find(key, 1));
    cache.put(key, {}, 0, 0);
    CHECK(cache.find(key, 19'999));
}
