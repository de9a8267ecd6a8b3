#include "server/http/operation/openapi.h"

#include <string>

#include "server/http/operation/openapi_document.h"

namespace pulsegate {

boost::asio::awaitable<ApiReply> show_openapi(const ApiContext&, const ApiRequest&) {
    co_return ApiReply{.body = std::string(openapi_document)};
}

}  // namespace pulsegate
