#pragma once

#include <memory>
#include <optional>

#include "server/auth/auth_result.h"
#include "server/base/clock.h"
#include "server/message/message.h"
#include "server/session/state/session.h"
#include "server/upgrade/client_record.h"

namespace pulsegate {

// Parts of a session as records, and back; see SessionPassage. Dates are wall-clock times, because
// each process has its own monotonic clock.

MessageRecord message_record(const Message& message, Millis now);
MessageRef message_of(const MessageRecord& record, Millis now);

/// The record has the message only if it is `whole`.
DeliveryRecord delivery_record(const Delivery& delivery, Millis now, bool whole);
Delivery delivery_of(const DeliveryRecord& record, Millis now);

/// Describes the part of the queue that the store does not have.
void describe_queue(const Outbox& outbox, SessionRecord& record, Millis now);

std::optional<AuthorizationRecord> authorization_record(const Authorization* authorization);
/// The authorization of a login that another node completes.
std::optional<AuthorizationRecord> authorization_record(const AuthResult& result);
/// Nothing: this version does not understand the rules.
std::optional<AuthResult> auth_result(const std::optional<AuthorizationRecord>& record);

WillRecord will_record(const StoredWill& will);
/// Null: there is none, or this version does not understand its rules.
std::unique_ptr<StoredWill> stored_will(const std::optional<WillRecord>& record);

void describe_aliases(const Session& session, SessionRecord& record);
void adopt_aliases(Session& session, const SessionRecord& record);

ReplayRecord replay_record(const ReplayState& replay, unsigned shards);
/// Null: there is none.
std::unique_ptr<ReplayState> replay_state(const std::optional<ReplayRecord>& record);

ClientTerms terms_of(const SessionRecord& record);

/// Are all its values valid for a session?
bool is_sound(const SessionRecord& record);

}  // namespace pulsegate
