#pragma once

#include <string>
#include <vector>

#include "loadgen/kill/options.h"

namespace pulsegate::kill {

/// The gateway's data folder: the requested one, or a temporary one that this object removes.
/// Create it before the broker, which uses it.
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

/// The requested command, or the gateway's command with the addresses that the clients use. In a
/// cluster, each node has its own number, and with edges its own place.
std::vector<std::string> broker_command(const Options& options, const DataFolder& data,
                                        unsigned node = 1, std::uint16_t place = 0);

}  // namespace pulsegate::kill
