#pragma once

#include <string>

#include "loadgen/kill/run_context.h"

namespace pulsegate::kill {

/// Reads the presence changes that a broker keeps for backends, from a cursor on. It is one more
/// watcher, which misses nothing.
class FeedReader {
public:
    explicit FeedReader(RunContext& context) : context_(context) {}

    /// Begins to read, if there is a feed. Call it before the first client connects.
    void begin();
    void broker_ended();
    /// Reads all changes so far.
    void read(Time now);

private:
    static constexpr const char* name = "the feed";

    bool read_page(Time now);

    RunContext& context_;
    std::string cursor_;
    bool reading_ = false;
};

}  // namespace pulsegate::kill
