#include "server/http/serving/api_error.h"

#include <array>
#include <cstddef>

namespace pulsegate {

using boost::beast::http::status;

namespace {

constexpr ApiErrorRow table[] = {
    {ApiError::bad_http, "bad_http", status::bad_request,
     "The request is not valid HTTP, or is ambiguous."},
    {ApiError::bad_path, "bad_path", status::bad_request,
     "A name or number in the path is not valid, or is not percent-encoded UTF-8."},
    {ApiError::unknown_parameter, "unknown_parameter", status::bad_request,
     "The request has a parameter that this method does not take."},
    {ApiError::repeated_parameter, "repeated_parameter", status::bad_request,
     "A parameter is given twice."},
    {ApiError::missing_parameter, "missing_parameter", status::bad_request,
     "A required parameter is missing."},
    {ApiError::bad_parameter, "bad_parameter", status::bad_request,
     "The value of a parameter is not valid."},
    {ApiError::conflicting_parameters, "conflicting_parameters", status::bad_request,
     "Two parameters can't be combined."},
    {ApiError::unexpected_body, "unexpected_body", status::bad_request,
     "The request has a body, but this method takes no body."},
    {ApiError::bad_json, "bad_json", status::bad_request,
     "The body is not JSON, or does not have the form that the method takes."},
    {ApiError::unknown_member, "unknown_member", status::bad_request,
     "An object in the body has an unknown member."},
    {ApiError::missing_member, "missing_member", status::bad_request,
     "An object in the body has no value for a required member."},
    {ApiError::bad_member, "bad_member", status::bad_request,
     "The value of a member is not valid."},
    {ApiError::conflicting_members, "conflicting_members", status::bad_request,
     "Two members can't be combined."},
    {ApiError::bad_topic, "bad_topic", status::bad_request,
     "The topic is not valid, is reserved, or is too long."},
    {ApiError::message_too_large, "message_too_large", status::bad_request,
     "The message is larger than `max-packet-size`."},
    {ApiError::too_many_entries, "too_many_entries", status::bad_request,
     "The request has too many messages, users or bytes."},
    {ApiError::bad_file, "bad_file", status::bad_request,
     "A backup can't be written to this file."},
    {ApiError::bad_key, "bad_key", status::bad_request,
     "The `Idempotency-Key` must have 1 to 255 visible ASCII characters."},
    {ApiError::bad_token, "bad_token", status::unauthorized, "The token is missing or wrong."},
    {ApiError::role_needed, "role_needed", status::forbidden,
     "The token's role does not allow this request; `role` is the required role."},
    {ApiError::foreign_host, "foreign_host", status::forbidden,
     "Without tokens, the gateway answers only requests to a loopback address."},
    {ApiError::foreign_origin, "foreign_origin", status::forbidden,
     "Without tokens, the gateway does not answer requests from web pages of other origins."},
    {ApiError::local_only, "local_only", status::forbidden,
     "This request is possible only over the gateway's Unix socket."},
    {ApiError::unknown_resource, "unknown_resource", status::not_found,
     "There is no such resource."},
    {ApiError::unknown_user, "unknown_user", status::not_found,
     "The gateway does not know the user."},
    {ApiError::unknown_client, "unknown_client", status::not_found,
     "There is no such client, and no session of such a client."},
    {ApiError::unknown_ban, "unknown_ban", status::not_found, "There is no such ban."},
    {ApiError::unknown_message, "unknown_message", status::not_found,
     "There is no such delayed message, or it was already published."},
    {ApiError::unknown_event, "unknown_event", status::not_found,
     "No dead letter has this id, or it was already removed."},
    {ApiError::not_listed, "not_listed", status::not_found,
     "The user is not on the list of members or watchers."},
    {ApiError::no_cluster, "no_cluster", status::not_found, "This node is not in a cluster."},
    {ApiError::no_demo, "no_demo", status::not_found, "The gateway was started without `demo`."},
    {ApiError::method_not_allowed, "method_not_allowed", status::method_not_allowed,
     "The resource does not have this method; `Allow` lists its methods."},
    {ApiError::feed_off, "feed_off", status::conflict, "`presence-feed` is off."},
    {ApiError::history_off, "history_off", status::conflict,
     "The gateway keeps no history of users: `history-bytes` is 0."},
    {ApiError::no_webhook, "no_webhook", status::conflict, "No webhook is set."},
    {ApiError::nothing_stored, "nothing_stored", status::conflict,
     "The gateway stores nothing: `data = none`."},
    {ApiError::file_exists, "file_exists", status::conflict,
     "The file exists, and the request does not set `overwrite`."},
    {ApiError::backup_under_way, "backup_under_way", status::conflict,
     "Another backup is under way."},
    {ApiError::drain_under_way, "drain_under_way", status::conflict,
     "A drain is already under way."},
    {ApiError::cannot_upgrade, "cannot_upgrade", status::conflict,
     "This process can't be upgraded, or an upgrade is under way already."},
    {ApiError::upgrade_under_way, "upgrade_under_way", status::conflict,
     "An upgrade is under way, so the gateway can't be drained; repeat the request later."},
    {ApiError::bad_settings, "bad_settings", status::unprocessable_entity,
     "A setting is wrong, or a file that a setting names; `faults` lists all mistakes."},
    {ApiError::cursor_too_old, "cursor_too_old", status::gone,
     "The log no longer contains the changes after this cursor, or a crash may have undone the "
     "change at this cursor."},
    {ApiError::body_too_large, "body_too_large", status::payload_too_large,
     "The body is larger than this method takes."},
    {ApiError::request_under_way, "request_under_way", status::conflict,
     "A request with the same `Idempotency-Key` is still running; repeat your request later."},
    {ApiError::key_reused, "key_reused", status::unprocessable_entity,
     "An earlier request with the same `Idempotency-Key` had a different body."},
    {ApiError::backup_failed, "backup_failed", status::internal_server_error,
     "The backup could not be written."},
    {ApiError::not_stored, "not_stored", status::service_unavailable,
     "The disk or Redis is in trouble: the change is not stored, or the data cannot be read."},
    {ApiError::shard_stalled, "shard_stalled", status::service_unavailable,
     "An event loop does not answer."},
    {ApiError::too_many_connections, "too_many_connections", status::service_unavailable,
     "All connections of the API are busy; try again in a second."},
    {ApiError::too_many_readers, "too_many_readers", status::service_unavailable,
     "Too many requests wait for presence changes or read traces."},
    {ApiError::standby, "standby", status::service_unavailable,
     "This node stands by. Either no node is the owner, or only the owner can answer this."},
    {ApiError::home_silent, "home_silent", status::service_unavailable,
     "The owner has not answered this node. A change may have happened."},
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
