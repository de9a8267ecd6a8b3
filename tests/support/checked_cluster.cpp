#include "tests/support/checked_cluster.h"

#include <algorithm>
#include <utility>

#include "protocol/decode.h"

namespace pulsegate {

void CheckedCluster::connect(PlayedClient& client, const Hello& hello) {
    const bool v5 = hello.version == Version::v5_0;
    PropertyList properties;
    PropertyList will_properties;
    Connect connect{.version = hello.version, .clean_start = hello.clean, .keepalive = 30};
    connect.client_id = client.name;
    connect.username = client.user;
    if (v5) {
        if (hello.expiry != 0) properties.add(Property::session_expiry_interval, hello.expiry);
        if (hello.receive_maximum != 65'535)
            properties.add(Property::receive_maximum, hello.receive_maximum);
        if (hello.aliases != 0) properties.add(Property::topic_alias_maximum, hello.aliases);
        if (hello.largest_packet != 0)
            properties.add(Property::maximum_packet_size, hello.largest_packet);
    }
    connect.properties = properties.view();
    if (hello.will) {
        const Note& will = hello.will->note;
        if (hello.will->delay != 0)
            will_properties.add(Property::will_delay_interval, hello.will->delay);
        if (will.message_expiry)
            will_properties.add(Property::message_expiry_interval, *will.message_expiry);
        connect.will =
            Will{will.topic, will.payload, will.qos, will.retain, will_properties.view()};
    }
    note("{} connects, {} {} expiry {} receive maximum {} largest {} will {} delay {}", client.name,
         v5 ? "5.0" : "3.1.1", hello.clean ? "clean" : "goes on", hello.expiry,
         hello.receive_maximum, hello.largest_packet,
         hello.will ? hello.will->note.payload : "none", hello.will ? hello.will->delay : 0);

    const auto old = std::exchange(client.link, std::make_unique<KeptLink>(client.shard));
    const bool takes_over = old && old->session;
    client.version = hello.version;
    client.aliases = hello.aliases;
    client.largest_packet = hello.largest_packet;
    client.topics.clear();
    client.own_topics.clear();
    client.due.clear();
    client.session_present.reset();
    client.link->heard = brokers.now;
    brokers.adopt(*client.link);
    brokers.broker(client.shard).logins().login(*client.link, connect, {}, brokers.now);
    const bool present = model.connect(client.name, client.shard, client.inbox, hello, brokers.now);
    if (!present) {
        client.received.clear();
        client.sent.clear();
    }
    finish_turn();
    if (!client.there()) throw Broken(client.name + " was not let in");
    if (client.session_present != present)
        throw Broken(client.name + " was told wrongly whether its session is present");
    if (takes_over && (!old->ending || old->ending->reason != Reason::session_taken_over))
        throw Broken(client.name + " still has its old connection");
}

void CheckedCluster::end(PlayedClient& client, bool takes_will_back) {
    // The broker ends it in this turn, and the will goes out before others hear anything.
    brokers.end_turn();
    model.end(client.name, takes_will_back, brokers.now);
    client.due.clear();
    finish_turn();
    client.link.reset();
}

void CheckedCluster::handle(PlayedClient& client, const Packet& packet) {
    client.link->heard = brokers.now;
    brokers.broker(client.shard).handle(*client.link->session, packet, brokers.now);
}

void CheckedCluster::finish_turn() {
    brokers.end_turn();
    for (PlayedClient& client : clients) read(client);
    check_forwarded();
    model.check_turn(brokers.now);
    check_counts();
}

void CheckedCluster::read(PlayedClient& client) {
    if (!client.link) return;
    const std::string bytes = std::exchange(client.link->bytes, {});
    Bytes rest = as_bytes(bytes);
    while (!rest.empty()) {
        const Frame frame = next_frame(rest, 1 << 20);
        if (frame.status != Frame::Status::complete) throw Broken(client.name + " got no packet");
        const Bytes packet = rest.first(frame.size);
        rest = rest.subspan(frame.size);
        if (client.largest_packet != 0 && packet.size() > client.largest_packet)
            throw Broken(fmt::format("{} got {} bytes and takes {}", client.name, packet.size(),
                                     client.largest_packet));
        const Decoded decoded = decode(packet, client.version, Sender::server);
        if (const auto* error = std::get_if<DecodeError>(&decoded))
            throw Broken(client.name + " got a bad packet: " + error->cause);
        read(client, std::get<Packet>(decoded));
    }
}

void CheckedCluster::read(PlayedClient& client, const Packet& packet) {
    if (const auto* publish = std::get_if<Publish>(&packet)) return read(client, *publish);
    if (const auto* pubrel = std::get_if<Pubrel>(&packet)) {
        if (pubrel->reason == Reason::packet_identifier_not_found || pubrel->packet_id > 60'000)
            return client.answers.push_back(
                {PacketType::pubrel, pubrel->packet_id, {pubrel->reason}});
        model.receive(client.name, *pubrel);
        client.received.erase(pubrel->packet_id);
        client.due.push_back({PacketType::pubcomp, pubrel->packet_id});
        return;
    }
    if (const auto* connack = std::get_if<Connack>(&packet)) {
        if (connack->reason != Reason::success) throw Broken(client.name + " was refused");
        client.session_present = connack->session_present;
    } else if (const auto* puback = std::get_if<Puback>(&packet)) {
        client.answers.push_back({PacketType::puback, puback->packet_id, {puback->reason}});
    } else if (const auto* pubrec = std::get_if<Pubrec>(&packet)) {
        client.answers.push_back({PacketType::pubrec, pubrec->packet_id, {pubrec->reason}});
    } else if (const auto* pubcomp = std::get_if<Pubcomp>(&packet)) {
        client.answers.push_back({PacketType::pubcomp, pubcomp->packet_id, {pubcomp->reason}});
    } else if (const auto* suback = std::get_if<Suback>(&packet)) {
        client.answers.push_back({PacketType::suback, suback->packet_id, suback->reasons});
    } else if (const auto* unsuback = std::get_if<Unsuback>(&packet)) {
        client.answers.push_back({PacketType::unsuback, unsuback->packet_id, unsuback->reasons});
    } else {
        throw Broken(client.name + " got a packet that it should not");
    }
}

void CheckedCluster::read(PlayedClient& client, const Publish& publish) {
    std::string topic(publish.topic);
    if (const auto alias = publish.properties.number(Property::topic_alias)) {
        if (*alias == 0 || *alias > client.aliases)
            throw Broken(
                fmt::format("{} got alias {} and allows {}", client.name, *alias, client.aliases));
        if (topic.empty() && !client.topics.contains(static_cast<std::uint16_t>(*alias)))
            throw Broken(fmt::format("{} does not know alias {}", client.name, *alias));
        auto& known = client.topics[static_cast<std::uint16_t>(*alias)];
        if (topic.empty())
            topic = known;
        else
            known = topic;
    }
    note("  {} gets {} '{}' QoS {} id {}{}{}", client.name, topic, publish.payload,
         static_cast<int>(publish.qos), publish.packet_id, publish.dup ? " DUP" : "",
         publish.retain ? " RETAIN" : "");
    model.receive(client.name, publish, topic, brokers.now);
    if (publish.qos == QoS::at_least_once)
        client.due.push_back({PacketType::puback, publish.packet_id});
    if (publish.qos != QoS::exactly_once) return;
    if (!client.received.insert(publish.packet_id).second && !publish.dup)
        throw Broken(client.name + " takes a new message for one that it has had");
    client.due.push_back({PacketType::pubrec, publish.packet_id});
}

/// What the model published went to all, and nothing else did.
void CheckedCluster::check_forwarded() {
    auto published = model.take_published();
    for (auto& forwarded : brokers.take_forwarded()) {
        const Message& message = *forwarded.message;
        if (message.topic.starts_with("presence/")) continue;
        const auto found = std::find_if(published.begin(), published.end(), [&](const Note* note) {
            return note->topic == message.topic && note->payload == message.payload;
        });
        if (found == published.end())
            throw Broken("'" + message.payload + "' to " + message.topic +
                         " was published too early");
        for (const unsigned shard : forwarded.spared) model.check_unwanted(**found, shard);
        if (message.retain != (*found)->retain || message.qos != (*found)->qos)
            throw Broken("'" + message.payload + "' to " + message.topic + " changed");
        notes_[forwarded.message] = *found;
        published.erase(found);
    }
    if (!published.empty())
        throw Broken("'" + published[0]->payload + "' to " + published[0]->topic +
                     " was not published");
}

void CheckedCluster::check_counts() {
    std::size_t expired = 0;
    for (unsigned shard = 0; shard < brokers.shards(); ++shard) {
        const Broker& broker = brokers.broker(shard);
        const auto same = [&](const char* what, std::size_t real, std::size_t right) {
            if (real != right)
                throw Broken(
                    fmt::format("shard {} has {} {}, {} are right", shard, real, what, right));
        };
        same("sessions connected", broker.admin().sessions().connected(), model.connected(shard));
        same("sessions disconnected", broker.admin().sessions().disconnected(),
             model.disconnected(shard));
        same("subscriptions", broker.subscriptions(), model.subscriptions(shard));
        const auto waiting = model.waiting(shard, brokers.now);
        if (exact_ && (broker.waiting() < waiting.least || broker.waiting() > waiting.most))
            throw Broken(fmt::format("shard {} has {} messages waiting, {} to {} are right", shard,
                                     broker.waiting(), waiting.least, waiting.most));
        expired += waiting.expired;
        if (brokers.longest_queue(shard) > longest_queue_)
            throw Broken("a queue is longer than max-queued-messages");
    }
    if (!exact_) return;
    check_losses(model.lost_to_full_queues, &Counters::dropped_queue_full, "a full queue");
    check_expired(expired);
    check_losses(model.lost_to_size, &Counters::dropped_too_large, "its size");
}

void CheckedCluster::check_losses(std::uint64_t& right, std::uint64_t Counters::*counter,
                                  const char* cause) {
    const auto real = brokers.sum(counter);
    // The order of sessions that end in one tick is open, and so is what they lose.
    if (model.ended_together > 1) right = real;
    if (real != right)
        throw Broken(fmt::format("{} messages were lost to {}, {} are right", real, cause, right));
}

/// `waiting`: so many expired messages have not had their turn, and may be counted already.
void CheckedCluster::check_expired(std::size_t waiting) {
    const auto real = brokers.sum(&Counters::dropped_expired);
    std::uint64_t& least = model.lost_to_expiry;
    if (model.ended_together > 1) {  // as above
        least = std::min(least, real - std::min<std::uint64_t>(real, waiting));
        model.may_be_lost_to_expiry = std::max(model.may_be_lost_to_expiry, real - least);
    }
    const auto most = least + model.may_be_lost_to_expiry + waiting;
    if (real < least || real > most)
        throw Broken(
            fmt::format("{} messages were lost to expiry, {} to {} are right", real, least, most));
}

void CheckedCluster::expect(PlayedClient& client, const std::vector<PlayedClient::Answer>& right) {
    finish_turn();
    for (PlayedClient::Answer& answer : client.answers) {
        const bool of_message =
            answer.type == PacketType::puback || answer.type == PacketType::pubrec;
        const bool may_tell = of_message && client.version == Version::v5_0;
        if (may_tell && answer.reasons.front() == Reason::no_matching_subscribers)
            answer.reasons.front() = Reason::success;  // nobody gets it, which is one as well
    }
    if (std::exchange(client.answers, {}) != right)
        throw Broken(client.name + " was not answered as it should");
}

bool CheckedCluster::take_refusal(PlayedClient& client, std::uint16_t id) {
    finish_turn();
    const bool is_one = client.version == Version::v5_0 && client.answers.size() == 1 &&
                        client.answers.front().reasons.front() == Reason::quota_exceeded;
    if (!is_one) return false;
    if (client.answers.front().id != id) throw Broken(client.name + " was refused something else");
    client.answers.clear();
    return true;
}

void CheckedCluster::deliver(BrokerCluster::Pair shards) {
    const MessageRef message = brokers.deliver(shards);
    if (message && notes_.contains(message)) {
        const Note& arrived = *notes_[message];
        note("'{}' to {} arrives at shard {}", arrived.payload, arrived.topic, shards.second);
        model.arrive(arrived, shards.second, brokers.now);
    } else {
        note("a message from shard {} arrives at {}", shards.first, shards.second);
    }
    finish_turn();
    if (!brokers.has_messages()) model.settle_shares();
}

void CheckedCluster::tick() {
    note("tick");
    for (unsigned shard = 0; shard < brokers.shards(); ++shard)
        static_cast<void>(brokers.broker(shard).tick(brokers.now));
    model.tick(brokers.now);
    finish_turn();
    model.ended_together = 0;
}

void CheckedCluster::check_empty() {
    for (unsigned shard = 0; shard < brokers.shards(); ++shard) {
        const Broker& broker = brokers.broker(shard);
        const auto none = [&](const char* what, std::size_t left) {
            if (left != 0) throw Broken(fmt::format("{} {} are left", left, what));
        };
        none("sessions",
             broker.admin().sessions().connected() + broker.admin().sessions().disconnected());
        none("subscriptions", broker.subscriptions());
        none("waiting messages", broker.waiting());
        none("queues", brokers.queues(shard));
        none("shared subscriptions", broker.share_groups());
        none("watchers that lag behind", broker.admin().sessions().behind());
    }
}

std::string CheckedCluster::journal() const {
    std::string text;
    for (const auto& line : journal_) text += line + '\n';
    return text;
}

}  // namespace pulsegate
