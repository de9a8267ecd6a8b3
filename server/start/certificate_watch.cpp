#include "server/start/certificate_watch.h"

#include <cstdint>
#include <utility>

#include "server/base/log.h"

namespace pulsegate {

namespace {

constexpr std::int64_t seconds_a_day = 86'400;
constexpr std::int64_t warned_before = 14 * seconds_a_day;

void warn_of(const CertificateEnd& certificate, std::int64_t now) {
    const auto left = certificate.end - now;
    if (left > warned_before) return;
    const auto when = rfc3339(certificate.end * 1000);
    if (left <= 0)
        return spdlog::error(
            "tls-cert: {} has not been valid since {}: clients refuse it; renew it, and send "
            "SIGHUP",
            certificate.file, when);
    spdlog::warn("tls-cert: {} is valid until {}, for {} more days; renew it, and send SIGHUP",
                 certificate.file, when, left / seconds_a_day);
}

}  // namespace

void CertificateWatch::use(std::vector<CertificateEnd> ends) {
    const std::lock_guard lock(mutex_);
    ends_ = std::move(ends);
    warn();
}

void CertificateWatch::warn_daily() {
    const std::lock_guard lock(mutex_);
    if (monotonic_now() >= next_warning_) warn();
}

std::vector<CertificateEnd> CertificateWatch::ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
}

void CertificateWatch::warn() {
    next_warning_ = monotonic_now() + seconds_a_day * 1000;
    const auto now = unix_now();
    for (const CertificateEnd& certificate : ends_) warn_of(certificate, now);
}

}  // namespace pulsegate
