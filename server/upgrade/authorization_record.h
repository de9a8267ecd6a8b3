#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/upgrade/record_fields.h"

namespace pulsegate {

/// The results of a login.
struct AuthorizationRecord {
    bool has_rules = false;
    std::vector<std::string> rules{};  ///< each as a line of a rules file
    std::optional<std::int64_t> expiry{};
    std::optional<std::int64_t> token_issued{};

    bool operator==(const AuthorizationRecord&) const = default;
};

template <class Fields, RecordOf<AuthorizationRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.has_rules);
    field(2, record.rules);
    field(3, record.expiry);
    field(4, record.token_issued);
}

}  // namespace pulsegate
