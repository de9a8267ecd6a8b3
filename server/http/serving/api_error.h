#pragma once

#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <span>
#include <string_view>

namespace pulsegate {

/// What an error of the API is about, for programs: the member `code` beside the sentence in
/// `error`. A code keeps its name and its meaning for ever; the table in api_error.cpp has all of
/// them.
enum class ApiError : std::uint8_t {
    // The request is not as it should be.
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
    // Its sender may not do this.
    bad_token,
    role_needed,
    foreign_host,
    foreign_origin,
    local_only,
    // What it is about is not there.
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
    // It does not fit to the gateway's settings or state.
    feed_off,
    history_off,
    no_webhook,
    nothing_stored,
    file_exists,
    backup_under_way,
    drain_under_way,
    cannot_upgrade,
    bad_settings,
    cursor_too_old,
    body_too_large,
    request_under_way,
    key_reused,
    // The gateway can't do it.
    backup_failed,
    not_stored,
    shard_stalled,
    too_many_connections,
    too_many_readers,
    standby,
    memory_used_up,
    limit_reached,
};

struct ApiErrorRow {
    ApiError error;
    std::string_view code;
    boost::beast::http::status status;
    std::string_view meaning;
};

/// All of them, in the order of the enumeration.
std::span<const ApiErrorRow> api_errors();

const ApiErrorRow& row_of(ApiError error);

}  // namespace pulsegate
