#include "server/http/dashboard/dashboard.h"

#include "server/http/serving/web_files.h"

namespace pulsegate {

boost::asio::awaitable<ApiReply> show_dashboard(const ApiContext&, const ApiRequest& request) {
    const WebFile* const file = find_web_file(request.path);
    if (!file) co_return api_refusal(ApiError::unknown_resource, "the dashboard has no such file");
    co_return web_file_reply(*file);
}

}  // namespace pulsegate
