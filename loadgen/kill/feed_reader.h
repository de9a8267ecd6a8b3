#pragma once

#include <string>

#include "loadgen/kill/scene.h"

namespace pulsegate::kill {

/// Reads the changes of presence that a broker keeps for backends, from a cursor on. One more
/// watcher, and one that misses nothing.
class FeedReader {
public:
    explicit FeedReader(Scene& scene) : scene_(scene) {}

    /// Before the first client comes: from here on it reads, if there is a feed.
    void begin();
    void broker_ended();
    /// All that is there by now.
    void read(Time now);

private:
    static constexpr const char* name = "the feed";

    bool read_page(Time now);

    Scene& scene_;
    std::string cursor_;
    bool reading_ = false;
};

}  // namespace pulsegate::kill
