#pragma once

#include <string>

#include "tests/support/temporary_folder.h"

namespace pulsegate {

/// A key of RSA and a certificate for "localhost" that it signs itself: so it is its own authority,
/// too. In PEM files that are deleted with this object.
class SelfSigned {
public:
    SelfSigned();

private:
    const TemporaryFolder folder_{};

public:
    const std::string certificate = folder_.path("localhost.pem");
    const std::string key = folder_.path("localhost.key");
};

}  // namespace pulsegate
