#pragma once

#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <span>
#include <string_view>

namespace pulsegate {

/// The errors of the API for programs: the member `code` beside the sentence in `error`. A code
/// never changes its name or meaning; the table in api_error.cpp has all codes.
enum class ApiError : std::uint8_t {
    // The request is wrong.
    bad_http,
    bad_path,
    unknown_parameter,
    repeated_parameter,
    missing_parameter,
    bad_parameter,
    conflicting_parameters,
    unexpected_body,
    bad_json,
    unknown_member,
    missing_member,
    bad_member,
    conflicting_members,
    bad_topic,
    message_too_large,
    too_many_entries,
    bad_file,
    bad_key,
    // The sender may not do this.
    bad_token,
    role_needed,
    foreign_host,
    foreign_origin,
    local_only,
    // The requested object does not exist.
    unknown_resource,
    unknown_user,
    unknown_client,
    unknown_ban,
    unknown_message,
    unknown_event,
    not_listed,
    no_cluster,
    no_demo,
    method_not_allowed,
    // The request conflicts with the gateway's settings or state.
    feed_off,
    history_off,
    no_webhook,
    nothing_stored,
    file_exists,
    backup_under_way,
    drain_under_way,
    cannot_upgrade,
    upgrade_under_way,
    bad_settings,
    cursor_too_old,
    body_too_large,
    request_under_way,
    key_reused,
    // The gateway can't do this now.
    backup_failed,
    not_stored,
    shard_stalled,
    too_many_connections,
    too_many_readers,
    standby,
    home_silent,
    memory_used_up,
    limit_reached,
};

struct ApiErrorRow {
    ApiError error;
    std::string_view code;
    boost::beast::http::status status;
    std::string_view meaning;
};

/// All errors, in the order of the enumeration.
std::span<const ApiErrorRow> api_errors();

const ApiErrorRow& row_of(ApiError error);

}  // namespace pulsegate
