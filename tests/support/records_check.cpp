#include "tests/support/records_check.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "server/transport/tls/tls_records.h"
#include "tests/support/tls_peer.h"

namespace pulsegate {

namespace {

std::uint64_t checked = 0;

/// Bytes of one connection, two of the longest records and a few more. Reading copies all that is
/// left for each record.
constexpr std::size_t most_sent = 40'000;

/// What a client has sent: the stream, and the data that it sealed.
struct SentRecords {
    std::string stream{};
    std::string data{};
};

class RecordScript {
public:
    explicit RecordScript(Bytes script) : left_(script) {}

    bool is_done() const { return left_.empty(); }
    Suite suite() { return static_cast<Suite>(byte() % suites); }

    /// Plays one connection.
    SentRecords play(TlsPeer& peer) {
        SentRecords sent;
        while (!left_.empty() && sent.stream.size() < most_sent && step(peer, sent)) {
        }
        return sent;
    }

private:
    std::uint8_t byte() {
        if (left_.empty()) return 0;
        const std::uint8_t first = left_.front();
        left_ = left_.subspan(1);
        return first;
    }
    std::string_view some() {
        const std::size_t size = byte();
        const auto part = left_.first(std::min(size, left_.size()));
        left_ = left_.subspan(part.size());
        return as_text(part);
    }

    /// The last byte that is not zero is the type, whatever was meant.
    static void seal(TlsPeer& peer, SentRecords& sent, std::string inner) {
        sent.stream += peer.seal_inner(inner);
        inner.resize(inner.find_last_not_of('\0') + 1);
        if (!inner.empty() && inner.back() == static_cast<char>(record::data))
            sent.data.append(inner, 0, inner.size() - 1);
    }

    /// False: the next step begins another connection.
    bool step(TlsPeer& peer, SentRecords& sent) {
        switch (byte() % 13) {
            case 0: sent.stream += some(); break;
            case 1: {
                std::string inner(some());
                inner += static_cast<char>(byte());
                seal(peer, sent, inner.append(byte(), '\0'));
                break;
            }
            case 2: sent.stream += peer.update_keys(byte() % 2 == 0); break;
            case 3: sent.stream += peer.seal(record::handshake, some()); break;
            case 4: sent.stream += peer.seal(record::alert, some()); break;
            case 5: sent.stream += peer.seal(record::data, "", byte()); break;
            case 6: sent.stream += peer.seal(record::alert, std::string_view("\1\0", 2)); break;
            case 7: flip(sent); break;
            case 8: seal_long(peer, sent); break;
            case 9:
                if (peer.of_client().update()) break;
                throw std::runtime_error("OpenSSL fails");
            case 10: return false;
            default: {
                const auto content = some();
                sent.stream += peer.seal(record::data, content, byte());
                sent.data += content;
            }
        }
        return true;
    }

    void flip(SentRecords& sent) {
        if (sent.stream.empty()) return;
        const std::size_t from_end = byte() % sent.stream.size();
        char& flipped = sent.stream[sent.stream.size() - 1 - from_end];
        flipped = static_cast<char>(flipped ^ 1 << byte() % 8);
    }

    void seal_long(TlsPeer& peer, SentRecords& sent) {
        const std::string content((1 << 14) - 2 + byte() % 4, 'x');
        sent.stream += peer.seal(record::data, content, byte() % 4);
        sent.data += content;
    }

    Bytes left_;
};

/// What a server makes of the stream, which comes in pieces of up to so many bytes.
struct ReadRecords {
    std::string content{};
    std::uint64_t records = 0;  ///< that it opened, with the one that it could not open
    TlsRecords::End end{};
    std::string last{};  ///< what it sends then
};

ReadRecords read_in_pieces(const TlsPeer& peer, std::string_view stream, std::size_t longest) {
    TlsRecords server(peer.keys_of_server());
    std::minstd_rand random(static_cast<unsigned>(stream.size()));
    ReadRecords read;
    std::string kept;
    do {
        const std::size_t size = std::min(stream.size(), 1 + random() % longest);
        kept += stream.substr(0, size);
        stream.remove_prefix(size);
        do {
            std::string input = kept;  // of its own: what is read or written behind it is found
            const auto opened =
                server.open({reinterpret_cast<std::uint8_t*>(input.data()), input.size()});
            if (opened.content > opened.consumed || opened.consumed > input.size())
                throw std::logic_error("more was opened than there is");
            read.content.append(input, 0, opened.content);
            kept.erase(0, opened.consumed);
            read.records += server.taken();
        } while (server.is_stopped() && server.end() == TlsRecords::End::none);
        if (kept.size() > TlsRecords::longest_record && server.end() == TlsRecords::End::none)
            throw std::logic_error("too much was kept");
    } while (!stream.empty());
    read.end = server.end();
    if (!server.seal("last words", read.last) || !server.seal_end(read.last))
        throw std::logic_error("nothing can be sent");
    return read;
}

/// Each piece costs a copy of what is kept, so only short streams come byte by byte.
std::size_t longest_piece(std::size_t stream) {
    if (stream > 5000) return 20'000;
    return stream < 500 && stream % 2 == 0 ? 1 : 50;
}

const char* broken_promise_of_connection(RecordScript& script) {
    TlsPeer peer(script.suite(), TlsPeer::secret(1), TlsPeer::secret(2));
    const SentRecords sent = script.play(peer);
    const ReadRecords whole = read_in_pieces(peer, sent.stream, sent.stream.size() + 1);
    checked += whole.records;
    if (!sent.data.starts_with(whole.content)) return "only what was sealed is read, in its order";
    const ReadRecords cut = read_in_pieces(peer, sent.stream, longest_piece(sent.stream.size()));
    if (cut.content != whole.content) return "records may be cut anywhere";
    if (cut.end != whole.end || cut.last != whole.last) return "the end is the same as well";
    std::string last = whole.last;
    if (peer.open_all(last) != "last words" || !last.empty()) return "the peer opens what is sent";
    const bool is_told = peer.alert().has_value();
    if (is_told != (whole.end != TlsRecords::End::gone)) return "the peer is told of the end";
    return nullptr;
}

}  // namespace

const char* broken_records_promise(Bytes script) {
    RecordScript connections(script);
    const char* broken = nullptr;
    while (!broken && !connections.is_done()) broken = broken_promise_of_connection(connections);
    return broken;
}

std::uint64_t checked_records() { return checked; }

}  // namespace pulsegate
