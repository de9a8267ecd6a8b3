#include "server/http/admin.h"

#include <utility>

#include "server/http/api.h"
#include "server/http/chat/chat.h"
#include "server/http/events/presence_feed.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/http_server.h"

namespace pulsegate {

struct Admin::Impl {
    Impl(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
         const Config& config, std::string token)
        : server({.most_body_bytes = [this](auto& request) { return api.most_body_bytes(request); },
                  .refusal = [this](auto& request) { return api.refusal(request); },
                  .is_probe = [this](auto& request) { return api.is_probe(request); },
                  .answer = [this](auto& request) { return api.answer(request); }}),
          questions(server.io(), std::move(shards)),
          feed(server.io(), shared.store, config.keeps_presence()),
          api({.io = server.io(),
               .shards = questions,
               .admission = shared.admission,
               .address_limits = shared.address_limits,
               .authenticator = shared.authenticator,
               .store = shared.store,
               .feed = feed,
               .webhook = webhook,
               .settings = config,
               .chat = chat},
              std::move(token)) {}

    HttpServer server;
    std::optional<ChatGateway> chat;
    const ShardQuestions questions;
    PresenceFeed feed;
    const Api api;
};

Admin::Admin(std::vector<Shard*> shards, const GatewayParts& shared, const Webhook* webhook,
             const Config& config, std::string token)
    : impl_(std::make_unique<Impl>(std::move(shards), shared, webhook, config, std::move(token))) {}

Admin::~Admin() { stop(); }

Admin::Endpoint Admin::listen(const Endpoint& endpoint, bool only_ipv6) {
    return impl_->server.listen(endpoint, only_ipv6);
}

void Admin::show_chat(const ChatGateway& gateway) { impl_->chat = gateway; }

void Admin::start() { impl_->server.start(); }

void Admin::stop() { impl_->server.stop(); }

}  // namespace pulsegate
