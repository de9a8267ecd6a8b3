#pragma once

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstddef>
#include <optional>

namespace pulsegate {

/// A stream socket that blocks its thread, as Asio's own do, but not for ever: an operation fails
/// with `timed_out` if it has waited for too long. It is a SyncReadStream and a SyncWriteStream.
template <class Protocol>
class TimedSocket {
public:
    using lowest_layer_type = typename Protocol::socket::lowest_layer_type;

    static constexpr std::chrono::seconds usual_wait{15};

    /// `io` belongs to the socket: it runs while the socket waits.
    explicit TimedSocket(boost::asio::io_context& io) : io_(io), socket_(io) {}

    lowest_layer_type& lowest_layer() { return socket_.lowest_layer(); }

    /// From now on an operation may take this long; nothing: there is no limit.
    void wait_at_most(std::optional<std::chrono::seconds> time) { longest_wait_ = time; }

    /// Closes the connection before, if there is one.
    void connect(const typename Protocol::endpoint& endpoint, boost::system::error_code& error) {
        socket_.close(error);
        await([&](auto done) { socket_.async_connect(endpoint, done); }, error);
    }

    template <class Buffers>
    std::size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
        return await([&](auto done) { socket_.async_read_some(buffers, done); }, error);
    }
    template <class Buffers>
    std::size_t read_some(const Buffers& buffers) {
        boost::system::error_code error;
        const std::size_t size = read_some(buffers, error);
        if (error) throw boost::system::system_error(error);
        return size;
    }

    template <class Buffers>
    std::size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
        return await([&](auto done) { socket_.async_write_some(buffers, done); }, error);
    }
    template <class Buffers>
    std::size_t write_some(const Buffers& buffers) {
        boost::system::error_code error;
        const std::size_t size = write_some(buffers, error);
        if (error) throw boost::system::system_error(error);
        return size;
    }

private:
    /// Returns the number of bytes that the operation has moved.
    template <class Begin>
    std::size_t await(Begin begin, boost::system::error_code& error) {
        bool is_done = false;
        std::size_t moved = 0;
        begin([&](const boost::system::error_code& result, std::size_t size = 0) {
            is_done = true;
            error = result;
            moved = size;
        });
        io_.restart();
        longest_wait_ ? io_.run_for(*longest_wait_) : io_.run();
        if (is_done) return moved;
        socket_.close(error);
        io_.run();  // the operation ends
        error = boost::asio::error::timed_out;
        return 0;
    }

    boost::asio::io_context& io_;
    typename Protocol::socket socket_;
    std::optional<std::chrono::seconds> longest_wait_ = usual_wait;
};

}  // namespace pulsegate
