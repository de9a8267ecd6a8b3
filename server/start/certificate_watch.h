#pragma once

#include <mutex>
#include <vector>

#include "server/base/clock.h"
#include "server/http/questions/admin_host.h"

namespace pulsegate {

/// Knows when the certificates end that the gateway shows, and warns of it in the log, two weeks
/// before. Any thread may call it.
class CertificateWatch {
public:
    /// The certificates from now on. Warns at once.
    void use(std::vector<CertificateEnd> ends);

    /// Warns, but once a day. Call it now and then.
    void warn_daily();

    std::vector<CertificateEnd> ends() const;

private:
    void warn();

    mutable std::mutex mutex_;
    std::vector<CertificateEnd> ends_;
    Millis next_warning_ = 0;
};

}  // namespace pulsegate
