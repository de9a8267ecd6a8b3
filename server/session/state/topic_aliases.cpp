#include "server/session/state/topic_aliases.h"

namespace pulsegate {

namespace {

/// Only topics up to this length get aliases. The receiver decides how many aliases are kept and
/// the senders choose the topics, so longer topics could fill the memory.
constexpr std::size_t longest_outgoing = 1024;

}  // namespace

/// A smaller alias has a place in memory as soon as the client sets a larger one. A vector may have
/// twice as many places as it needs.
std::size_t TopicAliases::bytes_after(std::uint16_t alias, std::string_view topic) const {
    const std::size_t places = alias > incoming_.size() ? alias - incoming_.size() : 0;
    return bytes_ + 2 * places * sizeof(std::string) + topic.size() - topic_of(alias).size();
}

std::size_t TopicAliases::bytes_of_outgoing(std::string_view topic) {
    constexpr std::size_t bookkeeping = 64;
    return bookkeeping + topic.size();
}

void TopicAliases::set(std::uint16_t alias, std::string_view topic) {
    bytes_ = bytes_after(alias, topic);
    if (alias > incoming_.size()) incoming_.resize(alias);
    // An assignment could keep the memory of a longer topic.
    std::string(topic).swap(incoming_[alias - 1]);
}

std::string_view TopicAliases::topic_of(std::uint16_t alias) const {
    if (alias == 0 || alias > incoming_.size()) return {};
    return incoming_[alias - 1];
}

TopicAliases::Outgoing TopicAliases::outgoing(const std::string& topic) const {
    if (outgoing_maximum_ == 0 || topic.size() > longest_outgoing) return {};
    if (const auto found = outgoing_.find(topic); found != outgoing_.end())
        return {found->second, true};
    if (outgoing_.size() >= outgoing_maximum_) return {};
    return {static_cast<std::uint16_t>(outgoing_.size() + 1), false};
}

void TopicAliases::introduced(const std::string& topic, std::uint16_t alias) {
    if (outgoing_.emplace(topic, alias).second) bytes_ += bytes_of_outgoing(topic);
}

}  // namespace pulsegate
