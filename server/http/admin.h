#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/admission/admission.h"
#include "server/admission/visitors.h"
#include "server/gatekeeper.h"
#include "server/shard.h"

namespace pulsegate {

/// The admin API over HTTP, on a thread of its own: health, metrics, the wheel, users, bans. It
/// asks the shards by mail and never touches what is theirs; a shard that does not answer costs it
/// a 503.
class Admin {
public:
    using Endpoint = boost::asio::ip::tcp::endpoint;

    /// Whoever asks must show the token, unless it is empty; /healthz answers everybody.
    Admin(std::vector<Shard*> shards, const Admission& admission, Visitors& visitors,
          const Gatekeeper& gatekeeper, std::string token);
    ~Admin();

    /// Before `start`. Returns where it really listens. Throws boost::system::system_error.
    Endpoint listen(const Endpoint& endpoint);

    void start();
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    std::thread thread_;
};

}  // namespace pulsegate
