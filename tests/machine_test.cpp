#include "server/base/machine.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>

#include <filesystem>
#include <thread>

#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

namespace fs = std::filesystem;

/// Files as in /sys/fs/cgroup.
class Groups {
public:
    void write(const std::string& file, const std::string& text) const {
        fs::create_directories(fs::path(folder_.path(file)).parent_path());
        folder_.write(file, text + "\n");
    }

    ControlGroupLimits of(const std::string& membership) const {
        return control_group_limits(folder_.write("membership", membership), folder_.path(""));
    }

private:
    TemporaryFolder folder_;
};

constexpr std::uint64_t mebibyte = 1024 * 1024;

}  // namespace

TEST_CASE("the limits of a unit are those of its own group") {
    const Groups groups;
    groups.write("system.slice/memory.max", "max");
    groups.write("system.slice/pulsegate.service/memory.max", std::to_string(512 * mebibyte));
    groups.write("system.slice/pulsegate.service/cpu.max", "150000 100000");
    const auto limits = groups.of("0::/system.slice/pulsegate.service\n");
    CHECK(limits.memory == 512 * mebibyte);
    CHECK(limits.processors == 1.5);
}

TEST_CASE("the least limit of all groups above holds") {
    const Groups groups;
    groups.write("memory.max", std::to_string(256 * mebibyte));
    groups.write("a/memory.max", std::to_string(100 * mebibyte));
    groups.write("a/cpu.max", "400000 100000");
    groups.write("a/b/memory.max", std::to_string(200 * mebibyte));
    groups.write("a/b/cpu.max", "max 100000");
    const auto limits = groups.of("0::/a/b\n");
    CHECK(limits.memory == 100 * mebibyte);
    CHECK(limits.processors == 4);
}

TEST_CASE("a container sees its group at the root, whatever path the host calls it by") {
    const Groups groups;
    groups.write("memory.max", std::to_string(64 * mebibyte));
    groups.write("cpu.max", "50000 100000");
    for (const char* membership : {"0::/\n", "0::/docker/0123456789abcdef\n", "0::/../other\n"}) {
        CAPTURE(membership);
        CHECK(groups.of(membership).memory == 64 * mebibyte);
        CHECK(groups.of(membership).processors == 0.5);
    }
}

TEST_CASE("version 1 has a hierarchy for each kind of limit") {
    const Groups groups;
    groups.write("memory/jobs/memory.limit_in_bytes", std::to_string(128 * mebibyte));
    groups.write("memory/memory.limit_in_bytes", "9223372036854771712");
    groups.write("cpu,cpuacct/jobs/cpu.cfs_quota_us", "300000");
    groups.write("cpu,cpuacct/jobs/cpu.cfs_period_us", "100000");
    groups.write("cpu,cpuacct/cpu.cfs_quota_us", "-1");
    groups.write("cpu,cpuacct/cpu.cfs_period_us", "100000");
    const auto limits =
        groups.of("9:name=systemd:/jobs\n4:memory:/jobs\n2:cpu,cpuacct:/jobs\n0::/jobs\n");
    CHECK(limits.memory == 128 * mebibyte);
    CHECK(limits.processors == 3);
}

TEST_CASE("a group may still take what its limit leaves, and what the kernel only caches") {
    const Groups groups;
    groups.write("a/memory.max", std::to_string(100 * mebibyte));
    groups.write("a/memory.current", std::to_string(80 * mebibyte));
    groups.write("a/memory.stat", fmt::format("anon {}\nfile {}\nshmem {}", 50 * mebibyte,
                                              40 * mebibyte, 10 * mebibyte));
    CHECK(groups.of("0::/a\n").unused_memory == 50 * mebibyte);
    groups.write("a/b/memory.max", "max");
    CHECK(groups.of("0::/a/b\n").unused_memory == 50 * mebibyte);
    groups.write("memory.max", std::to_string(90 * mebibyte));
    groups.write("memory.current", std::to_string(100 * mebibyte));
    CHECK(groups.of("0::/a/b\n").unused_memory == 0);

    groups.write("memory/old/memory.limit_in_bytes", std::to_string(100 * mebibyte));
    groups.write("memory/old/memory.usage_in_bytes", std::to_string(70 * mebibyte));
    groups.write("memory/old/memory.stat", fmt::format("cache 1\ntotal_cache {}", 10 * mebibyte));
    CHECK(groups.of("4:memory:/old\n").unused_memory == 40 * mebibyte);
}

TEST_CASE("a process knows its own memory, and what it may still take") {
    CHECK(own_memory() > mebibyte / 2);
    CHECK(unused_memory() > mebibyte);
    CHECK(unused_memory() < available_memory());
}

TEST_CASE("without control groups there are no limits") {
    const Groups groups;
    for (const char* membership : {"", "nonsense\n", "0::/a/b\n", ":\n"}) {
        CHECK_FALSE(groups.of(membership).memory);
        CHECK_FALSE(groups.of(membership).processors);
    }
    CHECK_FALSE(control_group_limits("/no/such/file", "/no/such/folder").memory);
}

TEST_CASE("a process that may run on one processor has one") {
    CHECK(available_memory() > mebibyte);
    CHECK(available_processors() >= 1);
    unsigned pinned = 0;
    std::thread([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
        pinned = available_processors();
    }).join();
    CHECK(pinned == 1);
}
