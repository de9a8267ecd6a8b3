#include "server/store/backup/backup.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/quiet_log.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

using Status = BackupResult::Status;

/// A ledger, and a folder for backups of it.
class BackupScene {
public:
    /// With a disk, the ledger's files are on that one. The backups are always on the real one.
    explicit BackupScene(const FaultyDisk* disk = nullptr) {
        std::filesystem::create_directory(folder_.path("copies"));
        options_.folder = folder_.path("data");
        options_.first_pause = 1ms;
        if (disk) options_.vfs = disk->vfs();
        start();
    }

    void start() {
        stop();
        ledger_ = std::make_unique<SqliteLedger>(options_);
        StoredState().read(*ledger_);
    }
    void stop() { ledger_.reset(); }

    std::future<Outcome> submit(std::vector<Operation> operations) {
        auto told = std::make_shared<std::promise<Outcome>>();
        ledger_->submit(
            {std::move(operations), [told](Outcome outcome, auto&) { told->set_value(outcome); }});
        return told->get_future();
    }

    std::future<BackupResult> begin(const std::string& file, bool overwrite = false) {
        auto told = std::make_shared<std::promise<BackupResult>>();
        ledger_->back_up({file, overwrite},
                         [told](const BackupResult& result) { told->set_value(result); });
        return told->get_future();
    }

    BackupResult back_up(const std::string& file, bool overwrite = false) {
        return begin(file, overwrite).get();
    }

    std::string path(const std::string& name) const { return folder_.path(name); }
    std::string copy() const { return path("copies/pulsegate.db"); }
    std::size_t copies() const {
        const std::filesystem::directory_iterator begin(path("copies"));
        return static_cast<std::size_t>(
            std::distance(begin, std::filesystem::directory_iterator()));
    }

    /// What a gateway would find that is started with the backup.
    StoredState restored() const {
        SqliteLedger ledger({.folder = path("copies")});
        StoredState state;
        state.read(ledger);
        return state;
    }

    EventLogState events() const { return ledger_->events(); }
    EventLogState restored_events() const {
        const SqliteLedger ledger({.folder = path("copies")});
        return ledger.events();
    }

private:
    const QuietLog quiet_;
    TemporaryFolder folder_;
    SqliteLedger::Options options_;
    std::unique_ptr<SqliteLedger> ledger_;
};

std::vector<Operation> first_unit() {
    return {PutOwner{.owner = 1, .user = "ann", .client = "phone", .expiry = 60}};
}

/// A new message, and a row that each unit changes.
std::vector<Operation> next_unit(Stamp stamp, std::size_t size) {
    PutMessage put{.stamp = stamp, .message = message("topic", std::string(size, 'x'))};
    put.receivers.push_back({.owner = 1});
    return {put, PutSessionExpiry{.owner = 1, .ends = static_cast<WallMillis>(stamp)}};
}

/// 200 messages of 40,000 bytes.
void fill(BackupScene& scene) {
    std::vector<std::future<Outcome>> told;
    told.push_back(scene.submit(first_unit()));
    for (Stamp stamp = 1; stamp <= 200; ++stamp)
        told.push_back(scene.submit(next_unit(stamp, 40'000)));
    for (auto& each : told) CHECK(each.get() == Outcome::committed);
}

}  // namespace

TEST_CASE("a backup holds what was committed before, and a beginning of what came meanwhile") {
    BackupScene scene;
    fill(scene);
    auto backup = scene.begin(scene.copy());
    Stamp last = 200;
    while (backup.wait_for(0s) != std::future_status::ready)
        CHECK(scene.submit(next_unit(++last, 100)).get() == Outcome::committed);
    const BackupResult result = backup.get();
    CHECK(result.error == "");
    REQUIRE(result.status == Status::written);
    CHECK(result.bytes == std::filesystem::file_size(scene.copy()));
    CHECK(scene.copies() == 1);  // a single file

    const StoredState restored = scene.restored();
    const auto found = restored.stamps().size();
    CHECK(found >= 200);
    CHECK(found <= last);
    StoredState model;
    model.apply({first_unit(), {}});
    for (Stamp stamp = 1; stamp <= found; ++stamp)
        model.apply({next_unit(stamp, stamp <= 200 ? 40'000 : 100), {}});
    CHECK(restored.text() == model.text());
}

TEST_CASE("a backup has the events so far, in an event log of its own") {
    BackupScene scene;
    CHECK(scene.submit({PutEvent{.body = "{}"}, PutEvent{.body = "{}"}}).get() ==
          Outcome::committed);
    REQUIRE(scene.back_up(scene.copy()).status == Status::written);
    const EventLogState restored = scene.restored_events();
    CHECK(restored.last == 2);
    CHECK(restored.log != scene.events().log);
    CHECK(scene.restored_events().log == restored.log);
}

TEST_CASE("a backup begins anew when a commit fails meanwhile, and is whole") {
    FaultyDisk disk;
    BackupScene scene(&disk);
    fill(scene);
    auto backup = scene.begin(scene.copy());
    Stamp last = 200;
    while (backup.wait_for(0s) != std::future_status::ready) {
        if (last < 203) disk.fail_at(disk.steps() + 2, FaultyDisk::Fault::io_error);
        CHECK(scene.submit(next_unit(++last, 100)).get() == Outcome::committed);
    }
    REQUIRE(backup.get().status == Status::written);
    const StoredState restored = scene.restored();
    CHECK(restored.stamps().size() >= 200);
    CHECK(restored.stamps().size() == restored.stamps().back());
}

TEST_CASE("a backup replaces an older one only if it is told to") {
    BackupScene scene;
    REQUIRE(scene.submit(first_unit()).get() == Outcome::committed);
    CHECK(scene.back_up(scene.copy()).status == Status::written);
    REQUIRE(scene.submit(next_unit(1, 10)).get() == Outcome::committed);
    const BackupResult again = scene.back_up(scene.copy());
    CHECK(again.status == Status::exists);
    CHECK(again.error == scene.copy() + " exists already");
    CHECK(scene.restored().stamps().empty());
    CHECK(scene.back_up(scene.copy(), true).status == Status::written);
    CHECK(scene.restored().stamps() == std::vector<Stamp>{1});
}

TEST_CASE("a backup goes to a file with an absolute path, and not into the data folder") {
    BackupScene scene;
    for (const std::string& bad :
         {std::string(), std::string("backup.db"), scene.path("copies/"), scene.path("copies"),
          scene.path("data/pulsegate.db"), scene.path("copies/../data/backup"),
          scene.copy() + std::string(1, '\0') + "more"}) {
        CAPTURE(bad);
        const BackupResult result = scene.back_up(bad, true);
        CHECK(result.status == Status::bad_file);
        CHECK(result.error != "");
    }
    CHECK(scene.copies() == 0);
}

TEST_CASE("a backup says why its file can't be written") {
    BackupScene scene;
    const BackupResult result = scene.back_up(scene.path("nowhere/backup"));
    CHECK(result.status == Status::failed);
    CHECK(result.error ==
          "can't write " + scene.path("nowhere/backup.part") + ": No such file or directory");
}

TEST_CASE("a backup that finds no room leaves nothing behind, and the ledger goes on") {
    BackupScene scene;
    fill(scene);
    scene.start();  // the WAL is empty then
    // The file may not grow as large as the database.
    auto* const before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit low{.rlim_cur = 1024 * 1024, .rlim_max = limit.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
    const BackupResult result = scene.back_up(scene.copy());
    const Outcome outcome = scene.submit(next_unit(201, 100)).get();
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, before);
    CHECK(result.status == Status::failed);
    CHECK(has(result.error, "can't copy to " + scene.copy() + ".part: "));
    CHECK(scene.copies() == 0);
    CHECK(outcome == Outcome::committed);
    CHECK(scene.back_up(scene.copy()).status == Status::written);
}

TEST_CASE("one backup at a time, which waits while the ledger's disk fails") {
    FaultyDisk disk;
    BackupScene scene(&disk);
    disk.break_down(SQLITE_FULL);
    auto unit = scene.submit(first_unit());
    auto first = scene.begin(scene.copy());
    const BackupResult second = scene.back_up(scene.path("copies/other"));
    CHECK(second.status == Status::busy);
    CHECK(second.error == "another backup is under way");
    disk.mend();
    CHECK(unit.get() == Outcome::committed);
    CHECK(first.get().status == Status::written);
    CHECK(scene.back_up(scene.path("copies/other")).status == Status::written);
}

TEST_CASE("a ledger that ends gives up its backup") {
    FaultyDisk disk;
    BackupScene scene(&disk);
    disk.break_down(SQLITE_FULL);
    scene.submit(first_unit());
    auto backup = scene.begin(scene.copy());
    scene.stop();
    CHECK(backup.get().status == Status::failed);
    CHECK(scene.copies() == 0);
}
