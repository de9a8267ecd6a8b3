#pragma once

#include <mutex>
#include <vector>

#include "server/base/certificate_end.h"
#include "server/base/clock.h"

namespace pulsegate {

/// Knows when the gateway's certificates expire, and logs a warning two weeks before. Any thread
/// may call it.
class CertificateWatch {
public:
    /// Sets the certificates. Warns at once.
    void use(std::vector<CertificateEnd> ends);

    /// Warns at most once a day. Call it now and then.
    void warn_daily();

    std::vector<CertificateEnd> ends() const;

private:
    void warn();

    mutable std::mutex mutex_;
    std::vector<CertificateEnd> ends_;
    Millis next_warning_ = 0;
};

}  // namespace pulsegate
