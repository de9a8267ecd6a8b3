#include "server/edge/edge_frames.h"

#include "server/upgrade/record_fields.h"

namespace pulsegate {

namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::size_t number_bytes = 4;
constexpr std::size_t time_bytes = 8;
constexpr std::uint64_t longest_told_ban = 100'000ull * 86'400'000;  // far beyond any ban-time
constexpr std::string_view login_name = "pulsegate forwarded login 1";

template <std::size_t bytes>
void append_little(std::string& out, std::uint64_t number) {
    out.append(bytes, '\0');
    put_number<bytes>(out, out.size() - bytes, number);
}

}  // namespace

template <class Fields, RecordOf<ForwardedLogin> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.connect);
    field(2, record.address);
    field(3, record.port);
    field(4, record.listener);
    field(5, record.user);
    field(6, record.client);
    field(7, record.password_line);
    field(8, record.authorization);
    field(9 | optional_tag, record.hook_age);
}

std::uint32_t EdgeFrame::number_at(std::size_t place) const {
    if (contents.size() < place + 4) return 0;
    return static_cast<std::uint32_t>(number_of(contents.substr(place, 4)));
}

void append(std::string& out, const EdgeFrame& frame) {
    append_little<length_bytes>(out, edge_frame_header - length_bytes + frame.contents.size());
    out += static_cast<char>(frame.kind);
    append_little<2>(out, frame.home_shard);
    append_little<2>(out, frame.edge_shard);
    append_little<4>(out, frame.number);
    out += frame.contents;
}

void append_number(std::string& contents, std::uint32_t number) {
    append_little<4>(contents, number);
}

std::optional<EdgeFrame> take_edge_frame(std::string_view& frames) {
    if (frames.size() < edge_frame_header) return std::nullopt;
    const auto size = number_of(frames.substr(0, length_bytes));
    const auto kind = static_cast<std::uint8_t>(frames[4]);
    if (size < edge_frame_header - length_bytes || size > frames.size() - length_bytes ||
        kind < static_cast<std::uint8_t>(EdgeFrameKind::open) ||
        kind > static_cast<std::uint8_t>(last_frame_kind))
        return std::nullopt;
    EdgeFrame frame{
        .kind = static_cast<EdgeFrameKind>(kind),
        .home_shard = static_cast<std::uint16_t>(number_of(frames.substr(5, 2))),
        .edge_shard = static_cast<std::uint16_t>(number_of(frames.substr(7, 2))),
        .number = static_cast<std::uint32_t>(number_of(frames.substr(9, 4))),
        .contents = frames.substr(edge_frame_header, size + length_bytes - edge_frame_header)};
    frames.remove_prefix(length_bytes + size);
    return frame;
}

std::string encode(const ToldBan& ban) {
    std::string contents;
    append_little<time_bytes>(contents, static_cast<std::uint64_t>(ban.left));
    append_number(contents, ban.lifts_known);
    return contents + ban.address.text();
}

std::optional<ToldBan> decode_ban(std::string_view contents) {
    if (contents.size() < time_bytes + number_bytes) return std::nullopt;
    const std::uint64_t left = number_of(contents.substr(0, time_bytes));
    const std::uint64_t known = number_of(contents.substr(time_bytes, number_bytes));
    const auto address = Address::parse(contents.substr(time_bytes + number_bytes));
    if (!address || left > longest_told_ban) return std::nullopt;
    return ToldBan{*address, static_cast<Millis>(left), static_cast<std::uint32_t>(known)};
}

std::string encode(const HomeBan& ban) {
    std::string contents;
    append_little<time_bytes>(contents, static_cast<std::uint64_t>(ban.left));
    contents += ban.ordered ? '\1' : '\0';
    return contents + ban.address.text();
}

std::optional<HomeBan> decode_home_ban(std::string_view contents) {
    if (contents.size() < time_bytes + 1) return std::nullopt;
    const std::uint64_t left = number_of(contents.substr(0, time_bytes));
    const auto address = Address::parse(contents.substr(time_bytes + 1));
    if (!address || (left > longest_told_ban && left != std::uint64_t{for_good}))
        return std::nullopt;
    return HomeBan{*address, static_cast<Millis>(left), contents[time_bytes] != '\0'};
}

std::string encode(const BanLift& lift) {
    std::string contents;
    append_number(contents, lift.number);
    return contents + lift.address.text();
}

std::optional<BanLift> decode_lift(std::string_view contents) {
    if (contents.size() < number_bytes) return std::nullopt;
    const std::uint64_t number = number_of(contents.substr(0, number_bytes));
    const auto address = Address::parse(contents.substr(number_bytes));
    if (!address) return std::nullopt;
    return BanLift{static_cast<std::uint32_t>(number), *address};
}

std::string encode(const ForwardedLogin& login) { return encode_record(login_name, login); }

std::optional<ForwardedLogin> decode_forwarded_login(std::string_view bytes) {
    return decode_record<ForwardedLogin>(login_name, bytes);
}

std::string encode_end(Cause cause, Reason reason) {
    return {static_cast<char>(cause), static_cast<char>(reason)};
}

std::optional<Ending> decode_end(std::string_view contents) {
    if (contents.size() < 2) return std::nullopt;
    const auto cause = static_cast<std::uint8_t>(contents[0]);
    if (cause > static_cast<std::uint8_t>(last_cause)) return std::nullopt;
    const char* why = ended_by_edge;
    if (static_cast<Cause>(cause) == Cause::timeout) why = "silent too long";
    if (static_cast<Cause>(cause) == Cause::connection_lost)
        why = "the peer closed without DISCONNECT";
    return Ending{static_cast<Cause>(cause), static_cast<Reason>(contents[1]), why};
}

}  // namespace pulsegate
