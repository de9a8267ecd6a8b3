#include "loadgen/kill/brief_client.h"

#include <fmt/format.h>

namespace pulsegate::kill {

using namespace std::chrono_literals;

BriefClient::BriefClient(RunContext& context, std::uint16_t number, Version version)
    : Client(context, client_name("brief", number, context.run), version, Session::clean,
             short_keepalive) {}

void BriefClient::on_login(bool) {
    leave_at_ = online_since() + context().random.between(200ms, 1500ms);
}

void BriefClient::on_end() {
    const Time now = load::Clock::now();
    const bool cut_off = now < leave_at_;
    const bool soon = context().random.below(2) == 0;
    if (!cut_off)
        return_at_ = now + context().random.between(2s, 4s);
    else
        return_at_ = now + (soon ? context().random.between(0s, limit())
                                 : context().random.between(4s, 12s));
}

void BriefClient::work(Time now) {
    if (online() && now >= leave_at_)
        end_connection(context().random.below(2) == 0 ? Ending::disconnect : Ending::close);
    want_connection(connects_ && now >= return_at_);
}

}  // namespace pulsegate::kill
