#pragma once

namespace pulsegate {

class Interest;
class Presence;
class Retained;
class Router;
class SessionTable;

/// Who is there, who has subscribed to what, and what is kept for later subscribers. It owns none
/// of the tables.
struct Tables {
    Interest& interest;
    Presence& presence;
    SessionTable& sessions;
    Router& router;
    Retained& retained;
};

}  // namespace pulsegate
