#include "server/shard/gateway_freeze.h"

#include <utility>

#include "server/shard/shard.h"

namespace pulsegate {

GatewayFreeze::GatewayFreeze(std::vector<Shard*> shards, const Terms& terms, Done done)
    : shards_(std::move(shards)),
      done_(std::move(done)),
      logins_until_(monotonic_now() + terms.for_logins),
      until_(monotonic_now() + terms.for_all),
      handled_(shards_.size()) {}

void GatewayFreeze::begin(std::vector<Shard*> shards, const Terms& terms, Done done) {
    const std::shared_ptr<GatewayFreeze> freeze(
        new GatewayFreeze(std::move(shards), terms, std::move(done)));
    on_each(
        freeze->shards_, [](Shard& shard) { shard.upgrade().begin_freeze(); },
        [freeze] { freeze->look(); });
}

void GatewayFreeze::end(const std::vector<Shard*>& shards, const std::function<void()>& done) {
    on_each(
        shards, [](Shard& shard) { shard.thaw(); }, done);
}

/// Calls `done` on the thread of the last shard.
void GatewayFreeze::on_each(const std::vector<Shard*>& shards,
                            const std::function<void(Shard&)>& task,
                            const std::function<void()>& done) {
    const auto left = std::make_shared<std::atomic<std::size_t>>(shards.size());
    for (Shard* const each : shards)
        each->send(Shard::Task([left, task, done](Shard& shard) {
            task(shard);
            if (--*left == 0) done();
        }));
}

void GatewayFreeze::look() {
    left_ = shards_.size();
    logins_ = 0;
    is_quiet_ = true;
    has_changed_ = false;
    for (std::size_t i = 0; i < shards_.size(); ++i)
        shards_[i]->send(
            Shard::Task([self = shared_from_this(), i](Shard& shard) { self->look(shard, i); }));
}

void GatewayFreeze::look(Shard& shard, std::size_t place) {
    const auto settled = shard.upgrade().settle(holds_logins_);
    if (!settled.is_quiet) is_quiet_ = false;
    if (settled.handled != handled_[place]) has_changed_ = true;
    handled_[place] = settled.handled;
    logins_ += settled.logins;
    if (--left_ == 0) decide(shard);
}

/// A quiet shard may still be sent something by one that is not quiet. But if all were quiet at two
/// looks, and none has handled anything in between, nothing was on its way after the first look: it
/// would have been in a mailbox, and handled before the second look.
void GatewayFreeze::decide(Shard& last) {
    const bool is_still = is_quiet_ && was_quiet_ && !has_changed_;
    was_quiet_ = is_quiet_;
    const Millis now = monotonic_now();
    if (is_still && holds_logins_)
        return on_each(
            shards_, [](Shard& shard) { shard.upgrade().complete_freeze(); },
            [self = shared_from_this()] { self->done_(true); });
    holds_logins_ = holds_logins_ || (is_still && logins_ == 0) || now >= logins_until_;
    if (now >= until_) return end(shards_, [self = shared_from_this()] { self->done_(false); });
    last.upgrade().after(1, [self = shared_from_this()] { self->look(); });
}

}  // namespace pulsegate
