#include "server/auth/passwords/passwords.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>

#include "protocol/utf8.h"
#include "server/auth/base64.h"
#include "server/auth/secret_file.h"
#include "server/base/files/unique_fd.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace {

namespace fs = std::filesystem;

/// Bytes, as in mosquitto 2.0, which refuses any other length.
constexpr std::size_t salt_size = 12;

using Digest = std::array<unsigned char, 64>;

bool stretch(std::string_view password, std::string_view salt, unsigned iterations, Digest& out) {
    return PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()),
                             reinterpret_cast<const unsigned char*>(salt.data()),
                             static_cast<int>(salt.size()), static_cast<int>(iterations),
                             EVP_sha512(), static_cast<int>(out.size()), out.data()) == 1;
}

bool hash_once(std::string_view password, std::string_view salt, Digest& out) {
    std::string salted;
    salted.reserve(password.size() + salt.size());
    salted.append(password).append(salt);
    const bool done =
        EVP_Digest(salted.data(), salted.size(), out.data(), nullptr, EVP_sha512(), nullptr) == 1;
    OPENSSL_cleanse(salted.data(), salted.size());
    return done;
}

std::string random_bytes(std::size_t size) {
    std::string bytes(size, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size)) != 1)
        throw std::runtime_error("the system gives no random numbers");
    return bytes;
}

/// Removes and returns the text before the next `$`, or all of it.
std::string_view take_field(std::string_view& text) {
    const auto end = std::min(text.find('$'), text.size());
    const auto field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
}

void require_usable(std::string_view user) {
    const auto fail = [](std::string_view why) {
        return std::runtime_error(fmt::format("the user's name {}; choose another", why));
    };
    if (user.empty()) throw fail("is empty");
    if (user.size() > 65'535) throw fail("is longer than a username in MQTT can be");
    if (user.front() == '#') throw fail("begins with '#', as a comment does");
    if (user.find(':') != std::string_view::npos) throw fail("contains a ':'");
    if (!valid_utf8(user)) throw fail("is not UTF-8");
    if (std::any_of(user.begin(), user.end(),
                    [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
        throw fail("contains a control character");
}

/// Keeps two processes that write the file at the same time from undoing each other's changes. It
/// locks the folder, not the file, because the file is replaced.
class WriteLock {
public:
    explicit WriteLock(const std::string& path)
        : folder_(::open(fs::absolute(path).parent_path().c_str(),
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (folder_) ::flock(folder_.get(), LOCK_EX);
    }

private:
    const UniqueFd folder_;
};

std::string read_existing(const std::string& path, FileMust must) {
    const bool exists = fs::exists(path);
    if (exists && must == FileMust::be_new)
        throw std::runtime_error(path + ": exists already; leave out --create");
    if (!exists && must == FileMust::exist)
        throw std::runtime_error(path + ": does not exist; --create makes a new file");
    return exists ? read_secret_file(path).text : "";
}

/// Replaces the user's first line by `line`, or appends it, and drops the user's other lines;
/// without `line` it drops them all. False if the user had none.
bool replace_line(std::string& text, std::string_view user, std::optional<std::string> line) {
    const auto prefix = std::string(user) + ":";
    std::string edited;
    bool found = false;
    for (Lines lines(text); lines.next();) {
        const auto old = lines.line();
        if (!old.starts_with(prefix)) {
            edited.append(old).append("\n");
            continue;
        }
        found = true;
        if (line) edited += *line + "\n";
        line.reset();
    }
    if (line) edited += *line + "\n";
    text = std::move(edited);
    return found;
}

void set_line(const std::string& path, std::string_view user, std::string_view hashed,
              FileMust must) {
    const WriteLock lock(path);
    std::string text = read_existing(path, must);
    replace_line(text, user, fmt::format("{}:{}", user, hashed));
    replace_secret_file(path, text);
}

void require_usable(std::string_view user, std::string_view password) {
    require_usable(user);
    if (password.empty()) throw std::runtime_error("the password is empty; choose another");
}

}  // namespace

PasswordFile::PasswordFile() { unknown_user_.salt = random_bytes(salt_size); }

/// Throws std::runtime_error that names the mistake, but never contains the text.
PasswordFile::Entry PasswordFile::parse(std::string_view hashed) {
    if (!hashed.starts_with("$argon2")) return parse_sha512(hashed);
    Argon2Hash argon2 = parse_argon2(hashed);
    return {.kind = Kind::argon2id,
            .salt = std::move(argon2.salt),
            .hash = std::move(argon2.hash),
            .argon2 = argon2.cost};
}

PasswordFile::Entry PasswordFile::parse_sha512(std::string_view hashed) {
    const auto fail = [](const char* why) { return std::runtime_error(why); };
    const bool stretched = hashed.starts_with("$7$");
    if (!stretched && !hashed.starts_with("$6$"))
        throw fail("is not hashed as $7$, $6$ or $argon2id$");
    hashed.remove_prefix(3);

    Entry entry;
    entry.kind = stretched ? Kind::pbkdf2 : Kind::sha512;
    if (stretched) {
        const auto number = take_field(hashed);
        const auto end = number.data() + number.size();
        const auto [rest, error] = std::from_chars(number.data(), end, entry.iterations);
        if (error != std::errc() || rest != end || entry.iterations == 0 ||
            entry.iterations > most_iterations)
            throw fail("has no number of iterations from 1 to 10000000");
    }
    const auto salt = from_base64(take_field(hashed));
    const auto hash = from_base64(hashed);
    if (!salt || salt->empty()) throw fail("has no salt in base64");
    if (!hash || hash->size() != sizeof(Digest)) throw fail("has no hash of 64 bytes in base64");
    entry.salt = *salt;
    entry.hash = *hash;
    return entry;
}

PasswordFile PasswordFile::load(const std::string& path) {
    SecretFile file = read_secret_file(path);
    PasswordFile passwords;
    if (!file.warning.empty()) passwords.warnings_.push_back(std::move(file.warning));

    for (Lines lines(file.text); lines.next();) {
        const auto line = lines.line().substr(0, lines.line().find_last_not_of(" \t") + 1);
        if (line.empty() || line.starts_with('#')) continue;
        const auto fail = [&](std::string_view what) {
            return std::runtime_error(fmt::format("{}:{}: {}", path, lines.number(), what));
        };
        if (line_with_null(line) > 0) throw fail("has a null character; save the file as UTF-8");
        if (without_byte_order_mark(line) !=
            line)  // two files were joined, and the mark is invisible
            throw fail("begins with a byte order mark; remove it, or write the line anew");

        const auto colon = line.find(':');
        if (colon == std::string_view::npos || colon == 0)
            throw fail(
                "is not user:hash; remove the line, then add the user with: pulsegate passwd " +
                path + " USER");
        const std::string user(line.substr(0, colon));
        try {
            if (!passwords.users_.emplace(user, User{parse(line.substr(colon + 1))}).second)
                throw std::runtime_error("is the second one of this user");
        } catch (const std::runtime_error& what) {
            throw fail(
                fmt::format("the password of '{}' {}; set it again: pulsegate passwd {} '{}'", user,
                            what.what(), path, user));
        }
    }
    passwords.equalize();
    passwords.warn_of_slow_lines(path);
    return passwords;
}

/// Makes the check of an unknown user as costly as that of any line.
void PasswordFile::equalize() {
    unsigned most = 0;
    for (const auto& [name, user] : users_) {
        const Entry& entry = user.entry;
        most = std::max(most, entry.iterations);
        auto& argon2 = unknown_user_.argon2;
        if (entry.argon2 && (!argon2 || entry.argon2->work() > argon2->work()))
            argon2 = entry.argon2;
    }
    unknown_user_.iterations = most == 0 ? usual_iterations : most;
}

void PasswordFile::warn_of_slow_lines(const std::string& path) {
    const auto slow = [](const User& user) {
        const Entry& entry = user.entry;
        return entry.iterations > slow_iterations ||
               (entry.argon2 && entry.argon2->work() > slow_argon2_work);
    };
    const auto found = std::find_if(users_.begin(), users_.end(),
                                    [&](const auto& named) { return slow(named.second); });
    if (found == users_.end()) return;
    warnings_.push_back(
        fmt::format("{}: the password of '{}' takes a second or more to check, and so does that of "
                    "everybody else then; set it again: pulsegate passwd {} '{}'",
                    path, found->first, path, found->first));
}

bool PasswordFile::check(std::string_view user, std::string_view password) const {
    if (password.empty()) return false;
    const auto found = users_.find(user);
    const bool known = found != users_.end();
    const Entry& entry = known ? found->second.entry : unknown_user_;
    const Entry& costly = unknown_user_;

    // Every check computes the same hashes, whatever the entry; the third one adds the iterations
    // that this user's hash has fewer than the maximum in the file, and of Argon2 the second one
    // the work.
    Digest once{};
    Digest stretched{};
    Digest unused{};
    bool computed = hash_once(password, entry.salt, once);
    computed &= stretch(password, entry.salt, entry.iterations, stretched);
    computed &= stretch(password, costly.salt, costly.iterations + 1 - entry.iterations, unused);
    std::string argon2;
    if (costly.argon2) {
        const Entry& like = entry.argon2 ? entry : costly;
        const std::size_t size = entry.argon2 && known ? entry.hash.size() : sizeof(Digest);
        argon2 = argon2id(password, like.salt, *like.argon2, size);
        computed &= !argon2.empty();
        if (const auto rest = difference(*costly.argon2, *like.argon2))
            computed &= !argon2id(password, like.salt, *rest, sizeof(Digest)).empty();
    }

    if (!computed) throw std::bad_alloc();

    const auto text = [](const Digest& digest) {
        return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
    };
    std::string_view digest = text(stretched);
    if (entry.kind == Kind::sha512) digest = text(once);
    if (entry.kind == Kind::argon2id) digest = argon2;
    const bool equal = digest.size() == entry.hash.size() &&
                       CRYPTO_memcmp(digest.data(), entry.hash.data(), digest.size()) == 0;
    return known & equal;
}

std::uint64_t PasswordFile::fingerprint_of(const std::string& user, const Entry& entry) {
    const auto cost = entry.argon2.value_or(Argon2Cost{});
    std::string text =
        fmt::format("{}:{}:{}:{}:{}:{}:{}:", user.size(), user, static_cast<int>(entry.kind),
                    entry.iterations, cost.memory, cost.passes, cost.lanes);
    text += entry.salt + entry.hash;
    return std::max<std::uint64_t>(stable_hash(text), 1);
}

PasswordLines PasswordFile::number_lines(const PasswordFile* before, PasswordLine& last) {
    const auto number_before = [before](const std::string& name, const Entry& entry) {
        if (!before) return PasswordLine{0};
        const auto found = before->users_.find(name);
        const bool same = found != before->users_.end() && found->second.entry == entry;
        return same ? found->second.line : PasswordLine{0};
    };
    PasswordLines all;
    for (auto& [name, user] : users_) {
        user.line = number_before(name, user.entry);
        if (user.line == 0) user.line = ++last;
        all.lines.insert(user.line);
        const auto fingerprint = fingerprint_of(name, user.entry);
        all.fingerprints.emplace(user.line, fingerprint);
        all.by_fingerprint.emplace(fingerprint, user.line);
    }
    all.last = last;
    return all;
}

PasswordLine PasswordFile::line_of(std::string_view user) const {
    const auto found = users_.find(user);
    return found == users_.end() ? 0 : found->second.line;
}

void require_settable(const std::string& path, std::string_view user, FileMust must) {
    require_usable(user);
    read_existing(path, must);
}

void set_password(const std::string& path, std::string_view user, std::string_view password,
                  unsigned iterations, FileMust must) {
    require_usable(user, password);
    Digest hash{};
    const std::string salt = random_bytes(salt_size);
    if (!stretch(password, salt, iterations, hash))
        throw std::runtime_error("the password can't be hashed");
    const std::string_view bytes(reinterpret_cast<const char*>(hash.data()), hash.size());
    set_line(path, user, fmt::format("$7${}${}${}", iterations, to_base64(salt), to_base64(bytes)),
             must);
}

void set_password(const std::string& path, std::string_view user, std::string_view password,
                  const Argon2Cost& cost, FileMust must) {
    require_usable(user, password);
    constexpr std::size_t argon2_salt = 16;  // bytes, as RFC 9106, section 4, has it
    constexpr std::size_t argon2_hash = 32;
    Argon2Hash hashed{cost, random_bytes(argon2_salt), {}};
    hashed.hash = argon2id(password, hashed.salt, cost, argon2_hash);
    if (hashed.hash.empty())
        throw std::runtime_error(
            fmt::format("the password can't be hashed: that takes {} MiB", cost.memory / 1024));
    set_line(path, user, to_text(hashed), must);
}

void remove_user(const std::string& path, std::string_view user) {
    require_usable(user);
    const WriteLock lock(path);
    std::string text = read_existing(path, FileMust::exist);
    if (!replace_line(text, user, std::nullopt))
        throw std::runtime_error(fmt::format("{}: has no user '{}'", path, user));
    replace_secret_file(path, text);
}

}  // namespace pulsegate
