#include "server/http/admin.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "server/http/api.h"
#include "server/http/chat/chat.h"
#include "server/http/events/presence_feed.h"
#include "server/http/events/traces.h"
#include "server/http/messages/once.h"
#include "server/http/operation/samples.h"
#include "server/http/questions/request_counts.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/http_server.h"

namespace pulsegate {

struct Admin::Impl {
    Impl(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
         const Config& config, AdminTokens tokens, AdminHost asked)
        : host(std::move(asked)),
          server({.most_body_bytes = [this](auto& request) { return api.most_body_bytes(request); },
                  .refusal = [this](auto& request) { return api.refusal(request); },
                  .is_probe = [this](auto& request) { return api.is_probe(request); },
                  .answer = [this](auto& request) { return api.answer(request); },
                  .answered = [this](auto& request, auto status) { api.count(request, status); }}),
          questions(server.io(), std::move(shards)),
          feed(server.io(), shared.store, config.keeps_presence()),
          traces(server.io()),
          samples(questions, shared.admission, shared.store),
          api({.io = server.io(),
               .shards = questions,
               .admission = shared.admission,
               .address_limits = shared.address_limits,
               .authenticator = shared.authenticator,
               .store = shared.store,
               .drain = shared.drain,
               .host = host,
               .started = wall_now(),
               .feed = feed,
               .traces = traces,
               .repeated = repeated,
               .samples = samples,
               .requests = requests,
               .webhook = webhook,
               .cluster = shared.cluster,
               .settings = config,
               .chat = chat},
              std::move(tokens)) {}

    boost::asio::awaitable<ApiReply> answer(std::string path) {
        const ApiRequest request{
            .method = boost::beast::http::verb::get, .path = path, .is_let_in = true};
        co_return co_await api.answer(request);
    }

    /// Waits for a while until all requests with an `Idempotency-Key` are answered. The next
    /// process of an upgrade gets the answers, but would execute unanswered requests again. The
    /// gateway's clients need not wait meanwhile.
    boost::asio::awaitable<void> end_repeated() {
        constexpr std::chrono::milliseconds patience(250), pause(2);
        repeated.admit_new(false);
        boost::asio::steady_timer timer(server.io());
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!repeated.are_answered() && std::chrono::steady_clock::now() < deadline) {
            timer.expires_after(pause);
            co_await timer.async_wait(boost::asio::use_awaitable);
        }
    }

    const AdminHost host;
    RepeatedRequests repeated;  ///< the server's unfinished requests end here when it is destroyed
    HttpServer server;
    std::optional<ChatGateway> chat;
    const ShardQuestions questions;
    PresenceFeed feed;
    Traces traces;
    Samples samples;
    RequestCounts requests;
    Api api;
};

Admin::Admin(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
             const Config& config, AdminTokens tokens, AdminHost host)
    : impl_(std::make_unique<Impl>(std::move(shards), shared, webhook, config, std::move(tokens),
                                   std::move(host))) {}

Admin::~Admin() { stop(); }

Admin::Endpoint Admin::listen(const Endpoint& endpoint, bool only_ipv6, bool has_tls) {
    return impl_->server.listen(endpoint, only_ipv6, has_tls);
}

void Admin::use(std::function<SSL*()> new_tls_session) {
    impl_->server.use(std::move(new_tls_session));
}

Admin::Endpoint Admin::listen(const Endpoint& endpoint, UniqueFd inherited, bool has_tls) {
    return impl_->server.listen(endpoint, std::move(inherited), has_tls);
}

void Admin::listen_locally(const std::string& path) { impl_->server.listen_locally(path); }
void Admin::listen_locally(const std::string& path, UniqueFd inherited) {
    impl_->server.listen_locally(path, std::move(inherited));
}

void Admin::adopt(UniqueFd socket, HttpCaller caller) {
    impl_->server.adopt(std::move(socket), std::move(caller));
}
std::vector<int> Admin::listening() const { return impl_->server.listening(); }
int Admin::listening_locally() const { return impl_->server.listening_locally(); }

void Admin::show_chat(const ChatGateway& gateway) { impl_->chat = gateway; }

void Admin::use(AdminTokens tokens) {
    boost::asio::post(impl_->server.io(), [this, tokens = std::move(tokens)]() mutable {
        impl_->api.use(std::move(tokens));
    });
}

void Admin::start() {
    boost::asio::co_spawn(impl_->server.io(), impl_->samples.take(impl_->server.io()),
                          boost::asio::detached);
    impl_->server.start();
}

void Admin::stop() { impl_->server.stop(); }

void Admin::ask(std::string path, std::function<void(ApiReply)> done) {
    boost::asio::co_spawn(
        impl_->server.io(), impl_->answer(std::move(path)),
        [done = std::move(done)](const std::exception_ptr& failed, ApiReply reply) {
            if (!failed) done(std::move(reply));
        });
}

void Admin::end_repeated() {
    boost::asio::co_spawn(impl_->server.io(), impl_->end_repeated(), boost::asio::use_future).get();
}
void Admin::hold() { impl_->server.hold(); }

void Admin::release() {
    boost::asio::post(impl_->server.io(), [this] { impl_->repeated.admit_new(true); });
    impl_->server.release();
}

std::vector<AnswerRecord> Admin::answers() const {
    return impl_->repeated.describe(monotonic_now());
}

void Admin::adopt(const std::vector<AnswerRecord>& answers) {
    impl_->repeated.adopt(answers, monotonic_now());
}

}  // namespace pulsegate
