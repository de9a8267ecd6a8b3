#include "server/session/session.h"

#include "server/base/hash.h"

namespace pulsegate {

std::uint64_t Session::fingerprint() const { return pulsegate::fingerprint(user.name, client); }

void Session::keep(std::size_t bytes) {
    kept_ = static_cast<std::uint16_t>(kept_ + units(bytes));
    user.kept += static_cast<std::uint32_t>(units(bytes) * kept_unit);
}

void Session::release(std::size_t bytes) {
    kept_ = static_cast<std::uint16_t>(kept_ - units(bytes));
    user.kept -= static_cast<std::uint32_t>(units(bytes) * kept_unit);
}

void Session::set_will(std::unique_ptr<StoredWill> will) {
    take_will();
    if (will) keep(will->message.cost());
    state.set_will(std::move(will));
}

std::unique_ptr<StoredWill> Session::take_will() {
    if (state.will()) release(state.will()->message.cost());
    return state.take_will();
}

void Session::forget_aliases() {
    if (aliases) aliases->for_each([this](std::string_view topic) { release(topic.size()); });
    aliases.reset();
}

}  // namespace pulsegate
