#include "server/redis/redis_socket.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "server/base/files/whole_file.h"
#include "server/base/machine.h"
#include "server/base/text/lines.h"
#include "server/redis/redis_reply.h"

namespace pulsegate {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using Clock = RedisSocket::Clock;

struct Resolution {
    error_code error{};
    std::vector<tcp::endpoint> places{};
};

Resolution resolve(const RedisAddress& address) {
    asio::io_context io;
    tcp::resolver resolver(io);
    Resolution found;
    const auto places = resolver.resolve(address.host, std::to_string(address.port),
                                         tcp::resolver::numeric_service, found.error);
    for (const auto& place : places) found.places.push_back(place.endpoint());
    return found;
}

/// The name service knows no deadline, so it is asked on a thread that may outlive the question.
std::vector<tcp::endpoint> places_of(const RedisAddress& address, Clock::time_point deadline) {
    error_code no_address;
    const auto number = asio::ip::make_address(address.host, no_address);
    if (!no_address) return {{number, address.port}};

    std::packaged_task<Resolution()> question([address] {
        name_thread("resolver");
        return resolve(address);
    });
    auto answer = question.get_future();
    std::thread(std::move(question)).detach();
    if (answer.wait_until(deadline) != std::future_status::ready)
        throw RedisError(
            fmt::format("Redis at {}: its name is not resolved in time", address.text()));
    auto found = answer.get();
    if (found.error)
        throw RedisError(fmt::format("Redis at {}: {}", address.text(), found.error.message()));
    return found.places;
}

/// Expects a certificate that is made out to this host, by name or by IP address.
bool expect_redis_host(SSL* ssl, const std::string& host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
    return SSL_set1_host(ssl, host.c_str()) == 1 &&
           SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

/// A Redis without TLS takes the first bytes of TLS for the beginning of a command, and waits for
/// its end.
std::string handshake_trouble(SSL* ssl, const error_code& error) {
    if (error == asio::error::timed_out)
        return "TLS: no answer in time; if its port has no TLS, write redis:// in cluster";
    const auto verified = SSL_get_verify_result(ssl);
    if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return fmt::format("TLS: {}; use in cluster a name that its certificate has",
                           X509_verify_cert_error_string(verified));
    if (verified != X509_V_OK)
        return fmt::format(
            "TLS: {}; name in cluster-ca a PEM file with the CA that has signed its "
            "certificate",
            X509_verify_cert_error_string(verified));
    return fmt::format("TLS: {}", error.message());
}

bool is_end(const error_code& error) {
    return error == asio::error::eof || error == asio::ssl::error::stream_truncated;
}

}  // namespace

struct RedisTls::Context {
    asio::ssl::context context{asio::ssl::context::tls_client};
};

RedisTls::RedisTls(const std::string& ca_file) : context_(std::make_unique<Context>()) {
    auto& context = context_->context;
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    context.set_verify_mode(asio::ssl::verify_peer);
    error_code error;
    if (ca_file.empty()) {
        context.set_default_verify_paths(error);
    } else {
        try {
            const auto file = read_whole_file("cluster-ca", ca_file);
            const auto pem = without_byte_order_mark(file.text);
            context.add_certificate_authority(asio::buffer(pem), error);
            if (pem.empty()) error = asio::error::eof;  // Asio does not report it as an error
        } catch (const std::runtime_error& unreadable) {
            throw RedisError(unreadable.what());
        }
    }
    if (error)
        throw RedisError(fmt::format(
            "cluster-ca: {}: {}; name a PEM file with the CA that has signed Redis's certificate",
            ca_file.empty() ? "the system's" : ca_file, error.message()));
}

RedisTls::~RedisTls() = default;

struct RedisSocket::Impl {
    /// Runs one operation, which calls `finish` with its error when it has ended. At the deadline
    /// the socket is closed, so the operation ends then.
    template <class Start>
    error_code run(Start start, Clock::time_point deadline) {
        std::optional<error_code> ended;
        start([&](const error_code& error) { ended = error; });
        io.restart();
        while (!ended && io.run_one_until(deadline) > 0) {
        }
        if (ended) return *ended;
        error_code ignored;
        socket.close(ignored);
        io.restart();
        io.run();
        return asio::error::timed_out;
    }

    error_code connect(const tcp::endpoint& place, Clock::time_point deadline) {
        error_code ignored;
        socket.close(ignored);
        const auto error =
            run([&](auto finish) { socket.async_connect(place, std::move(finish)); }, deadline);
        if (!error) socket.set_option(tcp::no_delay(true), ignored);
        return error;
    }

    /// Tries a host's addresses one after the other, each for its share of the time.
    void connect(const RedisAddress& address, Clock::time_point deadline) {
        const auto places = places_of(address, deadline);
        auto left = static_cast<int>(places.size());
        error_code error = asio::error::host_not_found;
        for (const auto& place : places) {
            const auto now = Clock::now();
            error = connect(place, now + (deadline - now) / left--);
            if (!error) return;
        }
        throw RedisError(fmt::format("{}: {}", name,
                                     error == asio::error::timed_out
                                         ? "it does not answer in time; is the address right?"
                                         : error.message()));
    }

    void begin_tls(asio::ssl::context& context, const std::string& host,
                   Clock::time_point deadline) {
        auto& stream = tls.emplace(socket, context);
        SSL* const ssl = stream.native_handle();
        if (!expect_redis_host(ssl, host))
            throw RedisError(fmt::format("{}: TLS: the host has no valid name", name));
        const auto error = run(
            [&](auto finish) {
                stream.async_handshake(asio::ssl::stream_base::client, std::move(finish));
            },
            deadline);
        if (error) throw RedisError(fmt::format("{}: {}", name, handshake_trouble(ssl, error)));
    }

    [[noreturn]] void fail(const error_code& error) const {
        std::string trouble = error == asio::error::timed_out ? "no answer in time"
                              : is_end(error)                 ? "it closed the connection"
                                                              : error.message();
        if (!tls && !has_read && error != asio::error::timed_out)
            trouble += "; if that is its TLS port, write rediss:// in cluster";
        throw RedisError(fmt::format("{}: {}", name, trouble));
    }

    asio::io_context io{1};
    tcp::socket socket{io};
    std::optional<asio::ssl::stream<tcp::socket&>> tls{};
    std::string name{};     ///< the server's name for messages
    bool has_read = false;  ///< anything
};

RedisSocket::RedisSocket(const RedisAddress& address, const RedisTls* tls,
                         Clock::time_point deadline)
    : impl_(std::make_unique<Impl>()) {
    impl_->name = "Redis at " + address.text();
    impl_->connect(address, deadline);
    if (tls) impl_->begin_tls(tls->context_->context, address.host, deadline);
}

RedisSocket::~RedisSocket() = default;

void RedisSocket::write(std::string_view bytes, Clock::time_point deadline) {
    const auto start = [&](auto& stream) {
        return [&](auto finish) {
            asio::async_write(stream, asio::buffer(bytes),
                              [finish](const error_code& error, std::size_t) { finish(error); });
        };
    };
    const auto error = impl_->tls ? impl_->run(start(*impl_->tls), deadline)
                                  : impl_->run(start(impl_->socket), deadline);
    if (error) impl_->fail(error);
}

std::size_t RedisSocket::read(std::span<char> room, Clock::time_point deadline) {
    std::size_t size = 0;
    const auto start = [&](auto& stream) {
        return [&](auto finish) {
            stream.async_read_some(asio::buffer(room.data(), room.size()),
                                   [finish, &size](const error_code& error, std::size_t got) {
                                       size = got;
                                       finish(error);
                                   });
        };
    };
    const auto error = impl_->tls ? impl_->run(start(*impl_->tls), deadline)
                                  : impl_->run(start(impl_->socket), deadline);
    if (error && size == 0) impl_->fail(error);
    impl_->has_read = true;
    return size;
}

}  // namespace pulsegate
