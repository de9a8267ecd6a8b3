#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/limits/address.h"
#include "server/limits/bans.h"
#include "server/limits/lifted_bans.h"
#include "server/session/terms/cause.h"
#include "server/transport/channels/channel.h"
#include "server/upgrade/client_record.h"

namespace pulsegate {

// The messages about a client between its edge and its home, in frames of the link between the two
// nodes. A frame begins with a u32, the number of bytes after it. Then come its kind (u8), the
// shards of the home and of the edge (u16 each), the number of the client at the edge's shard
// (u32), and the contents. Numbers are little-endian.

enum class EdgeFrameKind : std::uint8_t {
    // From the edge:
    open = 1,  ///< a client wants to log in: ForwardedLogin
    // From both:
    bytes,  ///< whole MQTT packets
    taken,  ///< u32: this many of these bytes have been taken, and others may follow
    end,    ///< the connection ends: cause and reason (u8 each); from the edge the client's silence
            ///< in ms (u32), from the home perhaps `old_answer`; nothing follows
    // From the home:
    accepted,  ///< the client is logged in: its limit of silence in ms, and its largest packet
               ///< (u32)
    ask,       ///< how long has the client been silent? If it has gone while its login is not
               ///< accepted, the answer is `end`
    // From the edge:
    silence,  ///< ms (u32)
    // Since version 2 of the link, between the first shards, and about no client:
    ban,   ///< from the edge: it has banned an address: ToldBan
    lift,  ///< from the home: the ban of an address is lifted: BanLift
    // Since version 3, between the first shards:
    home_ban,  ///< from the home: an address is banned there: HomeBan, or `end_of_home_bans`
};
inline constexpr EdgeFrameKind last_frame_kind = EdgeFrameKind::home_ban;

/// The first version of the link in which there are `ban` and `lift`.
inline constexpr unsigned link_version_of_bans = 2;
/// The first version of the link in which there is `home_ban`.
inline constexpr unsigned link_version_of_home_bans = 3;

struct EdgeFrame {
    EdgeFrameKind kind{};
    std::uint16_t home_shard = 0;
    std::uint16_t edge_shard = 0;
    std::uint32_t number = 0;
    std::string_view contents{};

    /// The contents as a u32 at this place; 0 if they are shorter.
    std::uint32_t number_at(std::size_t place) const;
};

inline constexpr std::size_t edge_frame_header = 13;  ///< bytes before the contents

void append(std::string& out, const EdgeFrame& frame);
void append_number(std::string& contents, std::uint32_t number);

/// A ban of an address that an edge has set because of wrong passwords.
struct ToldBan {
    Address address{};
    Millis left = 0;  ///< time until the ban ends
    /// The number of the last lift that the edge has heard of on this link; 0: none.
    std::uint32_t lifts_known = 0;
};

std::string encode(const ToldBan& ban);
/// Nothing if it is malformed.
std::optional<ToldBan> decode_ban(std::string_view contents);

/// A ban of an address that holds at the home.
struct HomeBan {
    Address address{};
    Millis left = 0;       ///< time until the ban ends; `for_good`: it does not end
    bool ordered = false;  ///< see BanCause
};

/// The contents of the frame behind the bans with which a link begins.
inline constexpr std::string_view end_of_home_bans{};

std::string encode(const HomeBan& ban);
/// Nothing if it is malformed.
std::optional<HomeBan> decode_home_ban(std::string_view contents);

std::string encode(const BanLift& lift);
/// Nothing if it is malformed.
std::optional<BanLift> decode_lift(std::string_view contents);

/// Takes the first frame off `frames`. Returns nothing if there is no frame, or if it is malformed:
/// then `frames` is not empty.
std::optional<EdgeFrame> take_edge_frame(std::string_view& frames);

/// The login of a client with credentials that its edge has checked.
struct ForwardedLogin {
    std::string connect{};   ///< its CONNECT
    std::string address{};   ///< its IP address
    std::uint16_t port = 0;  ///< of the client
    std::string listener{};  ///< URL of the edge's listener
    std::string user{};      ///< as in AuthResult
    std::string client{};
    std::uint64_t password_line = 0;  ///< fingerprint of the line; 0: none
    std::optional<AuthorizationRecord> authorization{};
    std::optional<std::uint64_t> hook_age{};  ///< ms since the auth hook was asked

    bool operator==(const ForwardedLogin&) const = default;
};

std::string encode(const ForwardedLogin& login);
/// Nothing if it is malformed, or if a later version has sent it that can't be understood here.
std::optional<ForwardedLogin> decode_forwarded_login(std::string_view bytes);

/// The login was refused, because the edge's auth hook allowed it before a revocation.
inline constexpr char old_answer = 1;

/// Why a connection ends whose edge says no more about its end.
inline constexpr const char* ended_by_edge = "its edge ended the connection";

/// The beginning of the contents of an `end` frame.
std::string encode_end(Cause cause, Reason reason);
/// Nothing if it is malformed, or if a later version has sent a cause that is not known here.
std::optional<Ending> decode_end(std::string_view contents);

}  // namespace pulsegate
