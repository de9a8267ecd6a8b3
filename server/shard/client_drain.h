#pragma once

#include <boost/asio/steady_timer.hpp>

#include "server/base/clock.h"
#include "server/loop/rounds.h"
#include "server/session/terms/link.h"
#include "server/transport/transport.h"

namespace pulsegate {

/// Asks the clients of a shard to leave, spread evenly over a time, so that not all log in
/// elsewhere at once. Clients with unanswered messages come last. It lives on the shard's thread.
class ClientDrain {
public:
    ClientDrain(Rounds& rounds, Transport& transport)
        : rounds_(rounds), transport_(transport), timer_(rounds.context()) {}

    /// Each connection ends with `ending`.
    void begin(Millis over, const Ending& ending);

private:
    void step();

    Rounds& rounds_;
    Transport& transport_;
    boost::asio::steady_timer timer_;
    Millis ends_ = 0;
    Ending ending_;
};

}  // namespace pulsegate
