#include "server/http/admin.h"

#include <utility>

#include "server/http/api.h"
#include "server/http/chat.h"
#include "server/http/http_server.h"
#include "server/http/shard_questions.h"

namespace pulsegate {

struct Admin::Impl {
    Impl(std::vector<Shard*> shards, const Admission& admission, AddressLimits& address_limits,
         const Authenticator& authenticator, DataStore& store, const BrokerSettings& settings,
         std::string token)
        : server({.most_body_bytes = [this](auto& request) { return api.most_body_bytes(request); },
                  .answer = [this](auto& request) { return api.answer(request); }}),
          questions(server.io(), std::move(shards)),
          api({.io = server.io(),
               .shards = questions,
               .admission = admission,
               .address_limits = address_limits,
               .authenticator = authenticator,
               .store = store,
               .settings = settings,
               .chat = chat},
              std::move(token)) {}

    HttpServer server;
    std::optional<ChatGateway> chat;
    const ShardQuestions questions;
    const Api api;
};

Admin::Admin(std::vector<Shard*> shards, const Admission& admission, AddressLimits& address_limits,
             const Authenticator& authenticator, DataStore& store, const BrokerSettings& settings,
             std::string token)
    : impl_(std::make_unique<Impl>(std::move(shards), admission, address_limits, authenticator,
                                   store, settings, std::move(token))) {}

Admin::~Admin() { stop(); }

Admin::Endpoint Admin::listen(const Endpoint& endpoint) { return impl_->server.listen(endpoint); }

void Admin::show_chat(const ChatGateway& gateway) { impl_->chat = gateway; }

void Admin::start() { impl_->server.start(); }

void Admin::stop() { impl_->server.stop(); }

}  // namespace pulsegate
