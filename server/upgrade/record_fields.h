#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "server/base/secrets/secret_bytes.h"

namespace pulsegate {

// Records as bytes. Each field has a tag and a length. Numbers take as few bytes as possible, the
// lowest first. A record names its fields once, for writing and reading:
//
//     template <class Fields, RecordOf<AliasRecord> Record>
//     void visit_fields(Record& record, Fields& field) {
//         field(1, record.alias);
//         field(2 | optional_tag, record.topic);
//     }
//
// A tag is never used again.

/// A reader that does not know a field with this tag may skip it.
inline constexpr std::uint8_t optional_tag = 0x80;

template <class Record, class Wanted>
concept RecordOf = std::same_as<std::remove_const_t<Record>, Wanted>;

inline constexpr std::size_t field_header_size = 5;  ///< its tag, and its length

template <std::size_t size>
void put_number(std::string& out, std::size_t at, std::uint64_t number) {
    for (std::size_t i = 0; i < size; ++i) out[at + i] = static_cast<char>(number >> (8 * i));
}

inline std::uint64_t number_of(std::string_view bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
}

/// Writes the fields of a record: `visit_fields(record, writer)`. It leaves no copies of them in
/// freed memory, because they may be secrets.
class FieldWriter {
public:
    explicit FieldWriter(std::string& out) : out_(out) {}

    template <std::integral Number>
    void operator()(std::uint8_t tag, Number value) {
        if (value != 0) write(tag, value);
    }
    void operator()(std::uint8_t tag, const std::string& text) {
        if (!text.empty()) write(tag, text);
    }
    void operator()(std::uint8_t tag, const SecretBytes& secret) { write(tag, secret.view()); }
    template <class Value>
    void operator()(std::uint8_t tag, const std::optional<Value>& value) {
        if (value) write(tag, *value);
    }
    template <class Value, class Allocator>
    void operator()(std::uint8_t tag, const std::vector<Value, Allocator>& values) {
        for (const auto& each : values) write(tag, each);
    }
    template <class Record>
    requires std::is_class_v<Record>
    void operator()(std::uint8_t tag, const Record& record) { write(tag, record); }

    void make_room(std::size_t size) {
        if (out_.capacity() - out_.size() >= size) return;
        std::string larger;
        const WipedAtEnd wiped(larger);
        larger.reserve(2 * (out_.size() + size));
        larger += out_;
        out_.swap(larger);
    }

private:
    template <std::integral Number>
    void write(std::uint8_t tag, Number value) {
        const auto begin = begin_field(tag);
        make_room(sizeof value);
        for (auto left = static_cast<std::uint64_t>(value); left != 0; left >>= 8)
            out_ += static_cast<char>(left);
        end_field(begin);
    }
    void write(std::uint8_t tag, const std::string& text) { write(tag, std::string_view(text)); }
    void write(std::uint8_t tag, std::string_view text) {
        const auto begin = begin_field(tag);
        make_room(text.size());
        out_ += text;
        end_field(begin);
    }
    template <class Record>
    requires std::is_class_v<Record>
    void write(std::uint8_t tag, const Record& record) {
        const auto begin = begin_field(tag);
        visit_fields(record, *this);
        end_field(begin);
    }

    std::size_t begin_field(std::uint8_t tag) {
        make_room(field_header_size);
        out_ += static_cast<char>(tag);
        out_.append(field_header_size - 1, '\0');
        return out_.size();
    }
    void end_field(std::size_t begin) {
        put_number<field_header_size - 1>(out_, begin - (field_header_size - 1),
                                          out_.size() - begin);
    }

    std::string& out_;
};

/// Reads the fields of a record: `visit_fields(record, reader)`.
class FieldReader {
public:
    explicit FieldReader(std::string_view bytes) {
        while (bytes.size() >= field_header_size) {
            const auto size = number_of(bytes.substr(1, field_header_size - 1));
            if (size > bytes.size() - field_header_size) break;
            fields_.push_back({static_cast<std::uint8_t>(bytes[0]),
                               bytes.substr(field_header_size, static_cast<std::size_t>(size))});
            bytes.remove_prefix(field_header_size + static_cast<std::size_t>(size));
        }
        good_ = bytes.empty();
    }

    /// The bytes of the first field with this tag.
    std::string_view first(std::uint8_t tag) const {
        const auto found = std::ranges::find(fields_, tag, &Field::tag);
        return found == fields_.end() ? std::string_view() : found->bytes;
    }

    /// True if all fields are known, or may be skipped.
    bool good() const {
        return good_ && std::ranges::all_of(fields_, [](const Field& each) {
                   return each.is_read || (each.tag & optional_tag) != 0;
               });
    }

    template <class Value>
    void operator()(std::uint8_t tag, Value& value) {
        for (Field& each : fields_)
            if (each.tag == tag) {
                each.is_read = true;
                read(each.bytes, value);
            }
    }

private:
    struct Field {
        std::uint8_t tag;
        std::string_view bytes;
        bool is_read = false;
    };

    void fail() { good_ = false; }

    template <std::integral Number>
    void read(std::string_view bytes, Number& value) {
        if (bytes.size() > sizeof(std::uint64_t)) return fail();
        const std::uint64_t number = number_of(bytes);
        value = static_cast<Number>(number);
        if (static_cast<std::uint64_t>(value) != number) fail();
    }
    void read(std::string_view bytes, std::string& text) { text = bytes; }
    void read(std::string_view bytes, SecretBytes& secret) { secret = SecretBytes(bytes); }
    template <class Value>
    void read(std::string_view bytes, std::optional<Value>& value) {
        read(bytes, value.emplace());
    }
    template <class Value, class Allocator>
    void read(std::string_view bytes, std::vector<Value, Allocator>& values) {
        read(bytes, values.emplace_back());
    }
    template <class Record>
    requires std::is_class_v<Record>
    void read(std::string_view bytes, Record& record) {
        FieldReader fields(bytes);
        visit_fields(record, fields);
        good_ = good_ && fields.good();
    }

    std::vector<Field> fields_;
    bool good_ = true;
};

inline constexpr std::size_t record_checksum_size = 8;

void append_checksum(std::string& out);
/// The bytes between the beginning, which names the kind of record, and the checksum. Nothing if
/// they are damaged or of another kind.
std::optional<std::string_view> fields_of(std::string_view beginning, std::string_view bytes);

template <class Record>
std::string encode_record(std::string_view beginning, const Record& record) {
    constexpr std::size_t usual = 2048;
    std::string out;
    out.reserve(usual);
    out = beginning;
    FieldWriter writer(out);
    visit_fields(record, writer);
    writer.make_room(record_checksum_size);
    append_checksum(out);
    return out;
}

template <class Record>
std::optional<Record> decode_record(std::string_view beginning, std::string_view bytes) {
    const auto fields = fields_of(beginning, bytes);
    if (!fields) return std::nullopt;
    Record record;
    FieldReader reader(*fields);
    visit_fields(record, reader);
    if (!reader.good()) return std::nullopt;
    return record;
}

}  // namespace pulsegate
