#include "protocol/reader.h"

#include <doctest/doctest.h>

#include <string>

#include "protocol/writer.h"
#include "tests/support/codec_check.h"
#include "tests/support/wire.h"

using namespace pulsegate;

TEST_CASE("a reader reads straight through") {
    const std::string bytes = wire("07 k258 w16909060 r300 s'text' s2 00ff 'rest'");
    Reader in(as_bytes(bytes));
    CHECK(in.u8() == 7);
    CHECK(in.u16() == 258);
    CHECK(in.u32() == 16'909'060);
    CHECK(in.varint() == 300);
    CHECK(in.text() == "text");
    CHECK(in.binary() == std::string_view("\0\xFF", 2));
    CHECK(in.left() == 4);
    CHECK(as_text(in.rest()) == "rest");
    in.finish();
    CHECK_FALSE(in.failed());
}

TEST_CASE("a reader yields zeros after the first short read") {
    const ExactCopy copy(as_bytes("\x01\x02\x03"));
    Reader in(copy.bytes());
    CHECK(in.u16() == 0x0102);
    CHECK(in.u16() == 0);
    CHECK(in.u8() == 0);  // although a byte was left
    CHECK(in.u32() == 0);
    CHECK(in.varint() == 0);
    CHECK(in.text() == "");
    CHECK(in.binary() == "");
    CHECK(in.rest().empty());
    CHECK_FALSE(in.more());
    CHECK(in.failed());
}

TEST_CASE("a reader keeps its first failure") {
    Reader in(as_bytes("\x01"));
    in.protocol_error("the first");
    in.malformed("the second");
    in.u16();
    CHECK(in.error().reason == Reason::protocol_error);
    CHECK(in.error().cause == std::string_view("the first"));
}

TEST_CASE("bytes after the end are a failure") {
    Reader in(as_bytes("ab"));
    in.u8();
    in.finish();
    CHECK(in.error().cause == std::string_view("has bytes after its end"));
}

TEST_CASE("a variable byte integer is read as it was written") {
    for (const std::uint32_t value :
         {0u, 1u, 127u, 128u, 16'383u, 16'384u, 2'097'151u, 2'097'152u, varint_limit}) {
        CAPTURE(value);
        Buffer bytes;
        put_varint(bytes, value);
        CHECK(bytes.size() == varint_size(value));
        Reader in(as_bytes(bytes));
        CHECK(in.varint() == value);
        CHECK_FALSE(in.failed());
        CHECK_FALSE(in.more());
    }
}

TEST_CASE("a variable byte integer has at most four bytes and none to spare") {
    for (const char* bad : {"", "80", "ff ff", "80 00", "ff 80 00", "80 80 80 00", "80 80 80 80",
                            "80 80 80 80 01", "ff ff ff ff 7f"}) {
        CAPTURE(std::string_view(bad));
        const std::string bytes = wire(bad);
        const ExactCopy copy(as_bytes(bytes));
        Reader in(copy.bytes());
        CHECK(in.varint() == 0);
        CHECK(in.failed());
    }
}
