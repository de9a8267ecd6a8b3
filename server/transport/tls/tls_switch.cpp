#include "server/transport/tls/tls_switch.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::uint8_t encrypted_extensions = 8;

/// The extensions that OpenSSL may answer: name, fragment length, groups, ALPN. Only the fragment
/// length changes the record layer, and `most_content` asks for it. If a later OpenSSL negotiates
/// another extension, its object is kept.
bool is_known_extension(unsigned type) {
    return type == 0 || type == 1 || type == 10 || type == 16;
}

std::optional<Suite> suite_of(const SSL* ssl) {
    const SSL_CIPHER* const cipher = SSL_get_current_cipher(ssl);
    switch (cipher ? SSL_CIPHER_get_protocol_id(cipher) : 0) {
        case 0x1301: return Suite::aes_128_gcm;
        case 0x1302: return Suite::aes_256_gcm;
        case 0x1303: return Suite::chacha20_poly1305;
        default: return std::nullopt;
    }
}

/// The maximum content of a record.
std::size_t most_content(SSL* ssl) {
    const auto code = SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl));
    return code == TLSEXT_max_fragment_length_DISABLED ? TlsRecords::most_content
                                                       : std::size_t{256} << code;
}

std::span<const std::uint8_t> of_suite(const std::array<std::uint8_t, longest_secret>& secret,
                                       Suite suite) {
    return std::span(secret).first(secret_size(suite));
}

}  // namespace

TlsSwitch::~TlsSwitch() {
    for (Secret* const secret : {&client_, &server_, &handshake_})
        OPENSSL_cleanse(secret->data(), secret->size());
}

void TlsSwitch::on_secret(std::string_view line) {
    Secret* secret = nullptr;
    if (line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) secret = &client_;
    if (line.starts_with("SERVER_TRAFFIC_SECRET_0 ")) secret = &server_;
    if (line.starts_with("SERVER_HANDSHAKE_TRAFFIC_SECRET ")) secret = &handshake_;
    if (!secret) return;
    if (secret == &handshake_) sent_ = 0;
    if (secret == &server_) {
        is_of_data_ = true;
        sent_in_handshake_ = std::exchange(sent_, 0);
    }
    line.remove_prefix(line.rfind(' ') + 1);
    const std::size_t size = std::min(line.size() / 2, secret->size());
    for (std::size_t i = 0; i < size; ++i)
        std::from_chars(line.data() + 2 * i, line.data() + 2 * i + 2, (*secret)[i], 16);
}

void TlsSwitch::on_sent_message(Bytes message) {
    constexpr std::size_t head = 6;  // type, length, length of all extensions
    if (message.size() < head || message[0] != encrypted_extensions) return;
    Bytes extensions = message.subspan(head);
    while (extensions.size() >= 4) {
        const auto type = static_cast<unsigned>(extensions[0] << 8 | extensions[1]);
        const auto length = std::size_t{extensions[2]} << 8 | extensions[3];
        if (!is_known_extension(type)) has_odd_extension_ = true;
        extensions = extensions.subspan(std::min(4 + length, extensions.size()));
    }
}

/// Keeps the last record of all written bytes.
void TlsSwitch::on_written(Bytes bytes) {
    while (!bytes.empty()) {
        const auto needed = [this] {
            constexpr std::size_t header = TlsRecords::header_size;
            if (last_record_.size() < header) return header;
            const Bytes begin = as_bytes(last_record_);
            return header + (std::size_t{begin[3]} << 8 | begin[4]);
        };
        if (last_record_.size() >= TlsRecords::header_size && last_record_.size() == needed())
            last_record_.clear();
        const auto part = bytes.first(std::min(bytes.size(), needed() - last_record_.size()));
        last_record_.append(as_text(part));
        bytes = bytes.subspan(part.size());
    }
}

std::optional<TlsIdle> TlsSwitch::obstacle(const SSL* ssl) const {
    if (SSL_version(ssl) != TLS1_3_VERSION) return TlsIdle::version;
    const auto suite = suite_of(ssl);
    if (!suite || !RecordCiphers::of_this_thread().has(*suite)) return TlsIdle::suite;
    // In FIPS mode, there are rules about the origin of AES-GCM's nonces.
    if (EVP_default_properties_is_fips_enabled(nullptr) == 1) return TlsIdle::fips;
    if (has_odd_extension_) return TlsIdle::extension;
    if (SSL_has_pending(ssl) != 0) return TlsIdle::unread;
    if (!is_of_data_) return TlsIdle::self_check;
    return std::nullopt;
}

/// The self-check: the last record that OpenSSL sealed must open with the key, number and ciphers
/// that will be used from now on. This record is a ticket. If clients show certificates, there are
/// no tickets, and it is the Finished message with the previous key. So if OpenSSL changes, this
/// costs memory, but no connections.
bool TlsSwitch::can_open_last_record(const TlsKeys& keys) const {
    if (sent_ > 0) return opens_last_record(keys.of_server(), sent_);
    std::array<std::uint8_t, TrafficKeys::size(Suite::aes_256_gcm)> memory{};
    TrafficKeys of_handshake(keys.suite(), memory.data());
    const bool opens = of_handshake.begin(of_suite(handshake_, keys.suite())) &&
                       opens_last_record(of_handshake, sent_in_handshake_);
    OPENSSL_cleanse(memory.data(), memory.size());
    return opens;
}

/// Tries to open the last record. `next` is the number of the record after it.
bool TlsSwitch::opens_last_record(TrafficKeys keys, unsigned next) const {
    if (next == 0 || last_record_.size() < TlsRecords::overhead) return false;
    keys.set_sequence(next - 1);
    const auto use = keys.use_once();
    if (!use) return false;
    Buffer record = last_record_;
    const std::span all(reinterpret_cast<std::uint8_t*>(record.data()), record.size());
    const auto text =
        all.subspan(TlsRecords::header_size, all.size() - TlsRecords::header_size - tag_size);
    return RecordCiphers::of_this_thread().open(*use, all.first(TlsRecords::header_size), text,
                                                all.last<tag_size>()) &&
           text.back() == SSL3_RT_HANDSHAKE;
}

TlsSwitch::Outcome TlsSwitch::go_on(SSL* ssl, std::string_view unopened) const {
    if (const auto why = obstacle(ssl)) return {nullptr, *why};
    const Suite suite = *suite_of(ssl);
    TlsKeys keys(suite, of_suite(client_, suite), of_suite(server_, suite));
    if (!keys) return {nullptr, TlsIdle::no_memory};
    if (!can_open_last_record(keys)) return {nullptr, TlsIdle::self_check};
    return {std::make_unique<SmallTls>(TlsRecords(std::move(keys), most_content(ssl)), unopened),
            TlsIdle::small};
}

}  // namespace pulsegate
