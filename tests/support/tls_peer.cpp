#include "tests/support/tls_peer.h"

#include <algorithm>
#include <stdexcept>

#include "server/transport/tls/tls_records.h"

namespace pulsegate {

namespace {

constexpr std::size_t header_size = TlsRecords::header_size;

std::span<const std::uint8_t> cut_to(const TlsPeer::Secret& secret, Suite suite) {
    return std::span(secret).first(secret_size(suite));
}

void demand(bool holds) {
    if (!holds) throw std::runtime_error("OpenSSL fails");
}

}  // namespace

TlsPeer::Secret TlsPeer::secret(std::uint8_t first) {
    Secret made{};
    std::fill(made.begin(), made.end(), first);
    return made;
}

TlsPeer::TlsPeer(Suite suite, const Secret& of_the_client, const Secret& of_the_server)
    : suite_(suite), client_secret_(of_the_client), server_secret_(of_the_server) {
    demand(of_client().begin(cut_to(client_secret_, suite)));
    demand(of_server().begin(cut_to(server_secret_, suite)));
}

TlsKeys TlsPeer::keys_of_server() const {
    return {suite_, cut_to(client_secret_, suite_), cut_to(server_secret_, suite_)};
}

std::string TlsPeer::seal(std::uint8_t type, std::string_view content, std::size_t padding) {
    std::string inner(content);
    inner += static_cast<char>(type);
    return seal_inner(inner.append(padding, '\0'));
}

std::string TlsPeer::seal_inner(std::string_view inner) {
    const std::size_t length = inner.size() + tag_size;
    std::string made("\x17\x03\x03", 3);
    made += static_cast<char>(length >> 8);
    made += static_cast<char>(length);
    made.append(inner).append(tag_size, '\0');
    const std::span all(reinterpret_cast<std::uint8_t*>(made.data()), made.size());
    const auto use = of_client().use_once();
    demand(use.has_value() && RecordCiphers::of_this_thread().seal(
                                  *use, all.first(header_size),
                                  all.subspan(header_size, inner.size()), all.last<tag_size>()));
    return made;
}

std::string TlsPeer::update_keys(bool asks_for_one) {
    std::string message("\x18\x00\x00\x01", 4);
    message += asks_for_one ? '\1' : '\0';
    std::string made = seal(record::handshake, message);
    demand(of_client().update());
    return made;
}

std::optional<TlsPeer::Opened> TlsPeer::open(std::string& sent) {
    if (sent.size() < header_size) return std::nullopt;
    const std::size_t size = TlsRecords::needed(as_bytes(sent));
    if (size <= header_size || sent.size() < size) return std::nullopt;
    std::string taken = sent.substr(0, size);
    const std::span all(reinterpret_cast<std::uint8_t*>(taken.data()), size);
    const auto text = all.subspan(header_size, size - header_size - tag_size);
    const auto use = of_server().use_once();
    if (!use || !RecordCiphers::of_this_thread().open(*use, all.first(header_size), text,
                                                      all.last<tag_size>()))
        return std::nullopt;
    sent.erase(0, size);
    return Opened{text.back(), std::string(as_text(text.first(text.size() - 1)))};
}

std::string TlsPeer::open_all(std::string& sent) {
    std::string data;
    while (const auto opened = open(sent)) {
        if (opened->type == record::data) data += opened->content;
        if (opened->type == record::alert && opened->content.size() == 2)
            alert_ = static_cast<std::uint8_t>(opened->content[1]);
        const bool is_update = opened->type == record::handshake && opened->content[0] == '\x18';
        if (!is_update) continue;
        ++key_updates_;
        demand(of_server().update());
    }
    return data;
}

}  // namespace pulsegate
