#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace pulsegate {

/// A folder for one test, deleted after it.
class TemporaryFolder {
public:
    TemporaryFolder()
        : path_((std::filesystem::temp_directory_path() / "pulsegate-test-XXXXXX").string()) {
        if (!::mkdtemp(path_.data())) std::abort();
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string path(const std::string& name) const { return path_ + "/" + name; }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }

    std::string read(const std::string& name) const {
        std::ostringstream text;
        text << std::ifstream(path(name), std::ios::binary).rdbuf();
        return text.str();
    }

    std::size_t files() const {
        const std::filesystem::directory_iterator begin(path_);
        return static_cast<std::size_t>(
            std::distance(begin, std::filesystem::directory_iterator()));
    }

private:
    std::string path_;
};

/// The message of the exception that a call throws; empty if it throws none.
template <class Call>
std::string complaint(Call call) {
    try {
        call();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

}  // namespace pulsegate
