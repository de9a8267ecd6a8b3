#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace pulsegate {

/// Users and their hashed passwords, in the format of mosquitto_passwd; a line is one of
///
///     user:$7$iterations$salt$hash     PBKDF2-HMAC-SHA512
///     user:$6$salt$hash                SHA-512 of password and salt
///
/// with salt and hash in base64. Empty lines and lines that begin with `#` are passed over.
///
/// It is loaded once and does not change: any number of threads may check at the same time. A check
/// takes as long as the most iterations in the file say, on purpose, so keep it off the event
/// loops.
class PasswordFile {
public:
    /// Throws std::runtime_error that names the file, the line and the remedy.
    static PasswordFile load(const std::string& path);

    /// Is this the user's password? Takes the same time for every user, known or not, so that
    /// nobody can find out by asking who is known. An empty password is never right.
    bool check(std::string_view user, std::string_view password) const;

    bool has(std::string_view user) const { return users_.contains(user); }
    std::size_t users() const { return users_.size(); }

    /// That others may read the file, with the remedy; or empty.
    const std::string& warning() const { return warning_; }

private:
    using Digest = std::array<unsigned char, 64>;

    struct Entry {
        std::string salt;
        Digest hash{};
        unsigned iterations = 1;
        bool stretched = true;  ///< `$7$`; else `$6$`
    };

    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const {
            return std::hash<std::string_view>()(name);
        }
    };

    PasswordFile();
    static Entry parse(std::string_view hashed);

    std::unordered_map<std::string, Entry, Hash, std::equal_to<>> users_;
    Entry nobody_;  ///< checked in place of an unknown user
    unsigned most_iterations_;
    std::string warning_;
};

/// How long a password's hash shall take, in rounds of HMAC-SHA512: a hundred logins a second and
/// core. mosquitto_passwd takes 101 rounds, which whoever stole the file tries in no time; a fleet
/// whose passwords are random tokens may do the same.
inline constexpr unsigned usual_iterations = 10'000;
inline constexpr unsigned most_iterations = 10'000'000;

enum class FileMust : bool { exist, be_new };

/// Throws, before anybody is asked for a password, what `set_password` would.
void require_settable(const std::string& path, std::string_view user, FileMust must);

/// Writes the user's line, in place of the one that is there or at the end. Throws
/// std::runtime_error; the file is then as it was.
void set_password(const std::string& path, std::string_view user, std::string_view password,
                  unsigned iterations = usual_iterations, FileMust must = FileMust::exist);

/// Throws std::runtime_error, also if there is no such user.
void remove_user(const std::string& path, std::string_view user);

}  // namespace pulsegate
