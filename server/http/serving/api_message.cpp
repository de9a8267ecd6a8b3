#include "server/http/serving/api_message.h"

#include <utility>

namespace pulsegate {

namespace json = boost::json;

json::object error_json(ApiError error, std::string_view sentence) {
    return {{"error", sentence}, {"code", row_of(error).code}};
}

ApiReply api_refusal(ApiError error, std::string_view sentence, json::object more) {
    json::object body = error_json(error, sentence);
    for (auto& member : more) body.insert_or_assign(member.key(), std::move(member.value()));
    return {.status = row_of(error).status, .body = json_text(body)};
}

}  // namespace pulsegate
