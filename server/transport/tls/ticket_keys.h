#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <mutex>

#include "server/base/clock.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

/// The keys that encrypt TLS session tickets (RFC 5077, section 4). An attacker who learns a key
/// can read the sessions that were resumed with it, so keys are replaced every few hours. A ticket
/// with the previous key still works, and is replaced. Any thread may use it.
class TicketKeys {
public:
    static constexpr Millis period = 3 * 3600 * Millis{1000};

    /// Throws std::runtime_error if there are no random numbers.
    TicketKeys();
    ~TicketKeys();
    TicketKeys(const TicketKeys&) = delete;
    TicketKeys& operator=(const TicketKeys&) = delete;

    /// The keys for another process, so that clients can resume their sessions after an upgrade.
    TicketKeysRecord describe() const;
    /// Continues with the keys of another process. Invalid keys are ignored.
    void adopt(const TicketKeysRecord& record);

    /// The context's tickets are encrypted with these keys, which must outlive it.
    void use_for(SSL_CTX* context);

private:
    struct Key {
        std::array<unsigned char, 16> name;
        std::array<unsigned char, 32> cipher;
        std::array<unsigned char, 32> mac;
    };

    static int on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                         EVP_MAC_CTX* mac, int encrypts);
    static Key random_key();
    void renew(Millis now);
    int seal(unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac);
    int open(const unsigned char* name, const unsigned char* iv, EVP_CIPHER_CTX* cipher,
             EVP_MAC_CTX* mac);

    mutable std::mutex mutex_;
    Key present_;
    Key past_;
    Millis since_;  ///< the time at which `present_` was made
};

}  // namespace pulsegate
