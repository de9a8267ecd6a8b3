#include "server/session/state/session.h"

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

std::size_t Session::kept_by_state() const {
    std::size_t others = state.will() ? units(state.will()->message.cost()) : 0;
    if (aliases) others += units(aliases->bytes());
    return kept() - others * kept_unit;
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

void Session::set_alias(std::uint16_t alias, std::string_view topic) {
    release(aliases->bytes());
    aliases->set(alias, topic);
    keep(aliases->bytes());
}

void Session::introduce_alias(const std::string& topic, std::uint16_t alias) {
    release(aliases->bytes());
    aliases->introduced(topic, alias);
    keep(aliases->bytes());
}

void Session::forget_aliases() {
    if (aliases) release(aliases->bytes());
    aliases.reset();
}

}  // namespace pulsegate
