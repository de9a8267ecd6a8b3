#include "server/session/users/user_names.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "server/session/users/presence.h"

using namespace pulsegate;

TEST_CASE("users are found by their names while others are added and removed") {
    std::mt19937 random(7);
    UserNames names;
    std::map<std::string, std::unique_ptr<User>> model;
    constexpr int steps = 100'000;
    for (int step = 0; step < steps; ++step) {
        const bool grows = step < steps / 2 ? random() % 4 != 0 : random() % 4 == 0;
        const std::string name = "user" + std::to_string(random() % 30'000);
        const auto known = model.find(name);
        REQUIRE(names.find(name) == (known == model.end() ? nullptr : known->second.get()));
        if (grows && known == model.end()) {
            const auto added = model.emplace(name, std::make_unique<User>(name)).first;
            names.insert(*added->second);
        } else if (grows) {
            auto replacement = std::make_unique<User>(name);
            names.replace(*known->second, *replacement);
            known->second = std::move(replacement);
        } else if (known != model.end()) {
            names.erase(*known->second);
            model.erase(known);
        }
        if (step % 1000 == 0) names.shrink();
        REQUIRE(names.size() == model.size());
    }
    for (const auto& [name, user] : model) REQUIRE(names.find(name) == user.get());
}
