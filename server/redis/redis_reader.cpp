#include "server/redis/redis_reader.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

namespace pulsegate {

void append_redis_command(std::string& out, std::span<const std::string_view> words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto word : words) {
        texts.push_back(word.data() ? word.data() : "");
        sizes.push_back(word.size());
    }
    char* formatted = nullptr;
    const int size = redisFormatCommandArgv(&formatted, static_cast<int>(words.size()),
                                            texts.data(), sizes.data());
    if (size < 0) throw std::bad_alloc();
    out.append(formatted, static_cast<std::size_t>(size));
    redisFreeCommand(formatted);
}

/// Builds a reply where hiredis's reader says what comes next. An item's place is in its parent's
/// array, which has all of its places from the start.
struct RedisReader::Builder {
    explicit Builder(Limits limits_of_a_reply) : limits(limits_of_a_reply) {}

    static RedisReply* add(const redisReadTask* task, RedisReply::Kind kind) {
        auto* const array = task->parent ? static_cast<RedisReply*>(task->parent->obj) : nullptr;
        auto* const place =
            array ? &array->items[static_cast<std::size_t>(task->idx)] : new RedisReply;
        place->kind = kind;
        return place;
    }

    static void* make_text(const redisReadTask* task, char* bytes, std::size_t size) {
        using Kind = RedisReply::Kind;
        const Kind kind = task->type == REDIS_REPLY_ERROR    ? Kind::error
                          : task->type == REDIS_REPLY_STATUS ? Kind::status
                                                             : Kind::text;
        auto* const reply = add(task, kind);
        reply->text.assign(bytes, size);
        return reply;
    }

    /// Null, which the reader takes for lack of memory, if the reply has too many items.
    static void* make_array(const redisReadTask* task, std::size_t items) {
        Builder& builder = *static_cast<Builder*>(task->privdata);
        if (items > builder.limits.items - builder.items) {
            builder.has_too_many_items = true;
            return nullptr;
        }
        builder.items += items;
        auto* const reply = add(task, RedisReply::Kind::array);
        reply->items.resize(items);
        return reply;
    }

    static void* make_integer(const redisReadTask* task, long long value) {
        auto* const reply = add(task, RedisReply::Kind::integer);
        reply->integer = value;
        return reply;
    }

    static void* make_nil(const redisReadTask* task) { return add(task, RedisReply::Kind::nil); }

    static void free_reply(void* reply) { delete static_cast<RedisReply*>(reply); }

    Limits limits;
    std::size_t items = 0;  ///< of the reply under way
    std::size_t bytes = 0;  ///< that came since the reader was empty or a reply was complete
    bool has_too_many_items = false;
};

void RedisReader::Free::operator()(redisReader* reader) const { redisReaderFree(reader); }

RedisReader::RedisReader(Limits limits) : builder_(std::make_unique<Builder>(limits)) {
    static redisReplyObjectFunctions functions = [] {
        // Later versions of hiredis have more of them, for RESP3, and sizes that are no int.
        redisReplyObjectFunctions made{};
        made.createString = Builder::make_text;
        made.createArray = [](const redisReadTask* task, auto size) {
            return Builder::make_array(task, static_cast<std::size_t>(size));
        };
        made.createInteger = Builder::make_integer;
        made.createNil = Builder::make_nil;
        made.freeObject = Builder::free_reply;
        return made;
    }();
    reader_.reset(redisReaderCreateWithFunctions(&functions));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = builder_.get();
}

RedisReader::~RedisReader() = default;

void RedisReader::feed(std::string_view bytes) {
    builder_->bytes += bytes.size();
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
}

std::optional<RedisReply> RedisReader::next() {
    void* found = nullptr;
    if (redisReaderGetReply(reader_.get(), &found) != REDIS_OK)
        throw std::runtime_error(
            builder_->has_too_many_items
                ? fmt::format("a reply with more than {} items", builder_->limits.items)
                : fmt::format("a malformed reply: {}", reader_->errstr));
    if (!found) {
        if (builder_->bytes > builder_->limits.bytes)
            throw std::runtime_error(
                fmt::format("a reply of more than {} bytes", builder_->limits.bytes));
        return std::nullopt;
    }
    const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(found));
    builder_->items = 0;
    builder_->bytes = 0;
    return std::move(*reply);
}

}  // namespace pulsegate
