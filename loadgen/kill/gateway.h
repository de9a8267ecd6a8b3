#pragma once

#include <string>
#include <vector>

#include "loadgen/kill/options.h"

namespace pulsegate::kill {

/// The gateway's data: the folder that was asked for, or a temporary one that this object removes.
/// Make it before the broker, which uses it.
class DataFolder {
public:
    /// Throws std::system_error if there can be no temporary folder.
    explicit DataFolder(const Options& options);
    ~DataFolder();
    DataFolder(const DataFolder&) = delete;
    DataFolder& operator=(const DataFolder&) = delete;

    const std::string& path() const { return path_; }

private:
    std::string path_;
    bool temporary_ = false;
};

/// The command that was asked for, or the gateway's, which listens where the clients look for it.
/// In a cluster each node has a number of its own.
std::vector<std::string> broker_command(const Options& options, const DataFolder& data,
                                        unsigned node = 1);

}  // namespace pulsegate::kill
