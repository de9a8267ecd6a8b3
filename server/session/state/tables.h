#pragma once

namespace pulsegate {

class Interest;
class Presence;
class Retained;
class Router;
class SessionTable;

/// The tables of users and sessions, subscriptions, and retained messages. It owns none of them.
struct Tables {
    Interest& interest;
    Presence& presence;
    SessionTable& sessions;
    Router& router;
    Retained& retained;
};

}  // namespace pulsegate
