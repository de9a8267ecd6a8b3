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
    const auto& [setting, file, end] = certificate;
    const auto when = rfc3339(end * 1000);
    const auto days = left / seconds_a_day;
    const bool is_of_link = setting != "tls-cert";
    if (left <= 0 && is_of_link)
        spdlog::error(
            "{}: {} has not been valid since {}: other nodes refuse it; renew it, and restart the "
            "nodes one after the other",
            setting, file, when);
    else if (left <= 0)
        spdlog::error(
            "tls-cert: {} has not been valid since {}: clients refuse it; renew it, and send "
            "SIGHUP",
            file, when);
    else if (is_of_link)
        spdlog::warn(
            "{}: {} is valid until {}, for {} more days; renew it, and restart the nodes one after "
            "the other",
            setting, file, when, days);
    else
        spdlog::warn("tls-cert: {} is valid until {}, for {} more days; renew it, and send SIGHUP",
                     file, when, days);
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
