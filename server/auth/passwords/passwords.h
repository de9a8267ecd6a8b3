#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/auth/password_lines.h"
#include "server/auth/passwords/argon2id.h"
#include "server/base/hash.h"

namespace pulsegate {

/// Users and their hashed passwords, in the format of mosquitto_passwd; a line is one of
///
///     user:$7$iterations$salt$hash     PBKDF2-HMAC-SHA512
///     user:$6$salt$hash                SHA-512 of password and salt
///     user:$argon2id$v=19$m=47104,t=1,p=1$salt$hash
///
/// with salt and hash in base64. Empty lines and lines that begin with `#` are ignored.
///
/// Immutable once loaded: any number of threads may check at the same time. By design, every check
/// takes as long as the largest number of iterations in the file, plus one Argon2id if any line
/// uses it. Keep it off the event loops.
class PasswordFile {
public:
    /// Throws std::runtime_error that names the file, the line and the remedy.
    static PasswordFile load(const std::string& path);

    /// True if this is the user's password. It takes the same time for known and unknown users, so
    /// the time does not tell which users exist, unless lines have Argon2id of different costs. An
    /// empty password is never right. Throws std::bad_alloc if there is no memory for the hash.
    [[nodiscard]] bool check(std::string_view user, std::string_view password) const;

    bool has(std::string_view user) const { return users_.contains(user); }
    std::size_t users() const { return users_.size(); }

    /// Gives the lines numbers above `last`, and increases `last`. A line that is also in `before`
    /// keeps its number. So the number tells whether a line is still the same.
    PasswordLines number_lines(const PasswordFile* before, PasswordLine& last);
    /// The number of the user's line; 0 if there is none.
    PasswordLine line_of(std::string_view user) const;

    /// Warnings for the operator: other users may read the file; a password slows all checks down.
    const std::vector<std::string>& warnings() const { return warnings_; }

private:
    enum class Kind : std::uint8_t { sha512, pbkdf2, argon2id };

    struct Entry {
        Kind kind = Kind::pbkdf2;
        std::string salt{};
        std::string hash{};
        unsigned iterations = 1;  ///< PBKDF2's
        std::optional<Argon2Cost> argon2 = std::nullopt;

        bool operator==(const Entry&) const = default;
    };
    struct User {
        Entry entry;
        PasswordLine line = 0;
    };

    PasswordFile();
    static std::uint64_t fingerprint_of(const std::string& user, const Entry& entry);
    static Entry parse(std::string_view hashed);
    static Entry parse_sha512(std::string_view hashed);
    void warn_of_slow_lines(const std::string& path);
    void equalize();

    std::unordered_map<std::string, User, TextHash, std::equal_to<>> users_;
    Entry unknown_user_;  ///< checked for unknown users; as costly as any line
    std::vector<std::string> warnings_;
};

/// Iterations of PBKDF2-HMAC-SHA512 for new hashes: about a hundred logins a second and core.
/// mosquitto_passwd's 101 iterations are guessed quickly from a stolen file; they suffice where
/// passwords are random tokens.
inline constexpr unsigned usual_iterations = 10'000;
inline constexpr unsigned most_iterations = 10'000'000;
/// About a second for a check. A line that takes longer slows down all checks.
inline constexpr unsigned slow_iterations = 1'000'000;

enum class FileMust : bool { exist, be_new };

/// Throws as `set_password` would for the path and the user. Call it before you ask for a password.
void require_settable(const std::string& path, std::string_view user, FileMust must);

/// Replaces the user's line, or appends one. If it throws std::runtime_error, the file is
/// unchanged.
void set_password(const std::string& path, std::string_view user, std::string_view password,
                  unsigned iterations = usual_iterations, FileMust must = FileMust::exist);
/// The same, with Argon2id instead of PBKDF2.
void set_password(const std::string& path, std::string_view user, std::string_view password,
                  const Argon2Cost& cost, FileMust must = FileMust::exist);

/// Removes the user's line. Throws std::runtime_error, also if there is no such user.
void remove_user(const std::string& path, std::string_view user);

}  // namespace pulsegate
