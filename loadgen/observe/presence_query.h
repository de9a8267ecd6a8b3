#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "loadgen/observe/user_presence.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Asks the HTTP API of a Pulsegate for the presence of users, one question after the other, on its
/// own thread, so that the caller need not wait.
class PresenceQuery {
public:
    struct Answer {
        Time asked;  ///< before the question was sent
        std::vector<UserPresence> users;
        std::string trouble;  ///< why there is no answer; empty: there is one
    };

    /// `api` is, for example, "http://127.0.0.1:8080". An empty `token` is not sent.
    PresenceQuery(std::string api, std::string token);
    ~PresenceQuery();

    /// Call it again only when the last answer has been taken.
    void ask(const std::vector<std::string>& users);
    std::optional<Answer> take();

private:
    void run();
    Answer answer_to(const std::string& path) const;

    const std::string api_;
    const std::string token_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopped_ = false;
    std::optional<std::string> question_;
    std::optional<Answer> answer_;
    std::thread thread_;  // last: it uses the others
};

/// Parses the body of the API's answer. Throws `std::exception` if it is not valid.
std::vector<UserPresence> users_in(std::string_view json);

}  // namespace pulsegate::load
