#pragma once

namespace pulsegate {

class PackedSessions;
class EventRecorder;
class Inboxes;
class PacketSender;
class Replay;
class RoomLogs;
class Rooms;
class SharedSubscriptions;

/// The parts that deliver a message to its receivers. It owns none of them.
struct DeliveryParts {
    PacketSender& packets;  ///< to one client
    EventRecorder& events;
    Inboxes& inboxes;
    Rooms& rooms;
    RoomLogs& room_logs;
    PackedSessions& packed;
    SharedSubscriptions& shared;
    Replay& replay;
};

}  // namespace pulsegate
