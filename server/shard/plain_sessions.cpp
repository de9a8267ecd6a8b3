#include "server/shard/plain_sessions.h"

#include <algorithm>
#include <string_view>

#include "protocol/topic.h"
#include "server/message/topics.h"

namespace pulsegate {

bool PlainSessions::fits(const PutOwner& stored) {
    return stored.kind == OwnerKind::session && stored.expiry != 0 && !stored.client.empty() &&
           stored.client.size() <= PackedRecord::longest_name &&
           stored.user.size() <= PackedRecord::longest_name;
}

PlainSession PlainSessions::add(const PutOwner& stored) {
    const PlainSession added{.names = texts_.size(),
                             .expiry = stored.expiry,
                             .user_size = static_cast<std::uint8_t>(stored.user.size()),
                             .client_size = static_cast<std::uint8_t>(stored.client.size()),
                             .protocol = stored.protocol};
    texts_ += stored.user;
    texts_ += stored.client;
    return added;
}

/// A watcher of presence has missed changes, and retained messages may be owed: see Replay.
bool PlainSessions::add(PlainSession& session, const PutSubscription& stored) {
    const std::string& filter = stored.filter;
    if (session.filter_size != 0 || has_wildcard(filter) || shared_filter(filter) ||
        presence_user(filter) || stored.owed)
        return false;
    session.filter = texts_.size();
    session.filter_size = static_cast<std::uint16_t>(filter.size());
    session.options = stored.options;
    session.identifier = stored.identifier;
    texts_ += filter;
    return true;
}

bool PlainSessions::add(PlainSession& session, const WaitingMessage& stored,
                        const Receiver& receiver, Millis expires, bool perhaps_sent) {
    if (session.messages == PackedRecord::most_messages || !receiver.identifiers.empty() ||
        receiver.share)
        return false;
    messages_.push_back({{head_of(stored, receiver), expires}, session.last_message});
    messages_.back().message.head.perhaps_sent = perhaps_sent;
    session.last_message = static_cast<std::uint32_t>(messages_.size());
    ++session.messages;
    return true;
}

StoredSession PlainSessions::get(const PlainSession& session) {
    of_one_.clear();
    for (auto place = session.last_message; place != 0; place = messages_[place - 1].before)
        of_one_.push_back(messages_[place - 1].message);
    std::ranges::reverse(of_one_);
    const std::string_view texts = texts_;
    return {
        .expiry = session.expiry,
        .protocol = session.protocol,
        .texts = {.user = texts.substr(session.names, session.user_size),
                  .client = texts.substr(session.names + session.user_size, session.client_size),
                  .filter = texts.substr(session.filter, session.filter_size)},
        .options = session.options,
        .identifier = session.identifier,
        .messages = of_one_};
}

}  // namespace pulsegate
