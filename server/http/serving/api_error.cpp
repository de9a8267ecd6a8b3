#include "server/http/serving/api_error.h"

#include <array>
#include <cstddef>

namespace pulsegate {

using boost::beast::http::status;

namespace {

constexpr ApiErrorRow table[] = {
    {ApiError::bad_http, "bad_http", status::bad_request,
     "The request is no HTTP that can be understood for certain."},
    {ApiError::bad_path, "bad_path", status::bad_request,
     "A name or number in the path can't be one, or is not percent-encoded UTF-8."},
    {ApiError::unknown_parameter, "unknown_parameter", status::bad_request,
     "The request has a parameter that this method does not take."},
    {ApiError::repeated_parameter, "repeated_parameter", status::bad_request,
     "A parameter is there twice."},
    {ApiError::missing_parameter, "missing_parameter", status::bad_request,
     "A parameter is missing that says what the request is about."},
    {ApiError::bad_parameter, "bad_parameter", status::bad_request,
     "The value of a parameter can't be one."},
    {ApiError::conflicting_parameters, "conflicting_parameters", status::bad_request,
     "Two parameters do not go together."},
    {ApiError::unexpected_body, "unexpected_body", status::bad_request,
     "The request has a body, and this method takes none."},
    {ApiError::bad_json, "bad_json", status::bad_request,
     "The body is not JSON, or not of the form that the method takes."},
    {ApiError::unknown_member, "unknown_member", status::bad_request,
     "An object in the body has a member that is not known."},
    {ApiError::missing_member, "missing_member", status::bad_request,
     "An object in the body lacks a member."},
    {ApiError::bad_member, "bad_member", status::bad_request,
     "The value of a member can't be one."},
    {ApiError::conflicting_members, "conflicting_members", status::bad_request,
     "Two members do not go together."},
    {ApiError::bad_topic, "bad_topic", status::bad_request,
     "The topic is none, is reserved, or is too long."},
    {ApiError::message_too_large, "message_too_large", status::bad_request,
     "The message is larger than `max-packet-size`."},
    {ApiError::too_many_entries, "too_many_entries", status::bad_request,
     "One request may not have so many messages, users or bytes."},
    {ApiError::bad_file, "bad_file", status::bad_request,
     "The file of a backup can't be this one."},
    {ApiError::bad_key, "bad_key", status::bad_request,
     "The `Idempotency-Key` is not of 1 to 255 visible ASCII characters."},
    {ApiError::bad_token, "bad_token", status::unauthorized, "The token is missing or wrong."},
    {ApiError::role_needed, "role_needed", status::forbidden,
     "The token's role does not allow it; `role` is the one that does."},
    {ApiError::foreign_host, "foreign_host", status::forbidden,
     "Without tokens, only requests to a loopback address are answered."},
    {ApiError::foreign_origin, "foreign_origin", status::forbidden,
     "Without tokens, requests of web pages from elsewhere are not answered."},
    {ApiError::local_only, "local_only", status::forbidden,
     "This can be asked for by the gateway's Unix socket only."},
    {ApiError::unknown_resource, "unknown_resource", status::not_found,
     "There is no such resource."},
    {ApiError::unknown_user, "unknown_user", status::not_found,
     "The gateway does not know the user."},
    {ApiError::unknown_client, "unknown_client", status::not_found,
     "There is no such client, nor a session of it."},
    {ApiError::unknown_ban, "unknown_ban", status::not_found, "There is no such ban."},
    {ApiError::unknown_message, "unknown_message", status::not_found,
     "There is no such delayed message (any more)."},
    {ApiError::unknown_event, "unknown_event", status::not_found,
     "No dead letter has this id (any more)."},
    {ApiError::not_listed, "not_listed", status::not_found,
     "The user is not on the list of members or watchers."},
    {ApiError::no_cluster, "no_cluster", status::not_found, "This node is in no cluster."},
    {ApiError::no_demo, "no_demo", status::not_found, "The gateway was started without `demo`."},
    {ApiError::method_not_allowed, "method_not_allowed", status::method_not_allowed,
     "The resource does not have the method; `Allow` names those that it has."},
    {ApiError::feed_off, "feed_off", status::conflict, "`presence-feed` is off."},
    {ApiError::history_off, "history_off", status::conflict,
     "Nothing is kept of what happens to users: `history-bytes` is 0."},
    {ApiError::no_webhook, "no_webhook", status::conflict, "There is no webhook."},
    {ApiError::nothing_stored, "nothing_stored", status::conflict,
     "Nothing is stored, because of `data = none`."},
    {ApiError::file_exists, "file_exists", status::conflict,
     "The file is there already, and may not be overwritten."},
    {ApiError::backup_under_way, "backup_under_way", status::conflict,
     "Another backup is under way."},
    {ApiError::drain_under_way, "drain_under_way", status::conflict,
     "The gateway is being drained already."},
    {ApiError::cannot_upgrade, "cannot_upgrade", status::conflict,
     "Another program can't take over from this process, or one is about to."},
    {ApiError::bad_settings, "bad_settings", status::unprocessable_entity,
     "A setting, or a file that one names, is wrong; `faults` has all that are."},
    {ApiError::cursor_too_old, "cursor_too_old", status::gone,
     "The log does not go back to this cursor."},
    {ApiError::body_too_large, "body_too_large", status::payload_too_large,
     "The body is larger than this method takes."},
    {ApiError::request_under_way, "request_under_way", status::conflict,
     "A request with the same `Idempotency-Key` is not answered yet; ask again."},
    {ApiError::key_reused, "key_reused", status::unprocessable_entity,
     "A request with the same `Idempotency-Key` had another body."},
    {ApiError::backup_failed, "backup_failed", status::internal_server_error,
     "The backup could not be written."},
    {ApiError::not_stored, "not_stored", status::service_unavailable,
     "The disk or Redis is in trouble: what was asked for is not stored."},
    {ApiError::shard_stalled, "shard_stalled", status::service_unavailable,
     "An event loop does not answer."},
    {ApiError::too_many_connections, "too_many_connections", status::service_unavailable,
     "All connections of the API are busy; try again in a second."},
    {ApiError::too_many_readers, "too_many_readers", status::service_unavailable,
     "Too many requests wait for changes of presence, or trace somebody."},
    {ApiError::standby, "standby", status::service_unavailable,
     "This node stands by; another one serves."},
    {ApiError::memory_used_up, "memory_used_up", status::insufficient_storage,
     "`memory-budget` is used up."},
    {ApiError::limit_reached, "limit_reached", status::insufficient_storage,
     "A limit is reached; the sentence names it."},
};

constexpr bool is_in_order() {
    for (std::size_t i = 0; i < std::size(table); ++i)
        if (static_cast<std::size_t>(table[i].error) != i) return false;
    return std::size(table) == static_cast<std::size_t>(ApiError::limit_reached) + 1;
}
static_assert(is_in_order());

}  // namespace

std::span<const ApiErrorRow> api_errors() { return table; }

const ApiErrorRow& row_of(ApiError error) { return table[static_cast<std::size_t>(error)]; }

}  // namespace pulsegate
