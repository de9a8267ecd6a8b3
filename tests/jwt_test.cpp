#include "server/auth/jwt.h"

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/auth/base64.h"
#include "tests/support/token_gate.h"
#include "tests/support/tokens.h"

using namespace pulsegate;

namespace {

/// What a gate with one secret says to claims that are signed well.
std::string ask(const std::string& claims, std::int64_t when = token_time) {
    return TokenGate().with_secret().ask(hs256(claims), when);
}

}  // namespace

TEST_CASE("the signatures in the RFCs' examples are right, and only what they sign is not enough") {
    // RFC 7515, A.1 and A.3: signed well, but without a sub.
    const std::string claims =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ";
    const auto key = from_base64url(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
    REQUIRE(key);
    TokenGate gate;
    gate.with_secret("hs", *key)
        .with_key("es",
                  "-----BEGIN PUBLIC KEY-----\n"
                  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
                  "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                  "-----END PUBLIC KEY-----\n")
        .with_key("ed",
                  "-----BEGIN PUBLIC KEY-----\n"
                  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                  "-----END PUBLIC KEY-----\n");
    CHECK(gate.ask("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + claims +
                   ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "!it has no sub");
    CHECK(gate.ask("eyJhbGciOiJFUzI1NiJ9." + claims +
                   ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3"
                   "-Kg6NU1Q") == "!it has no sub");
    // RFC 8037, A.4: signs a text that is not JSON.
    CHECK(gate.ask("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
                   "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_"
                   "MuM0KAg") == "!its claims can't be read");
}

TEST_CASE("a good token of every algorithm tells the user and the expiry") {
    const Signer p256 = ec();
    const Signer edwards = ed25519();
    TokenGate gate;
    gate.with_secret()
        .with_key("rsa.pem", rsa().public_pem())
        .with_key("ec.pem", p256.public_pem())
        .with_key("ed.pem", edwards.public_pem());
    for (const std::string& token :
         {hs256(usual_claims), signed_by(rsa(), R"({"alg":"RS256","typ":"JWT"})"),
          signed_by(p256, R"({"alg":"ES256"})"), signed_by(edwards, R"({"alg":"EdDSA"})")}) {
        const auto claims = gate.claims(token);
        CHECK(claims.user == "alice");
        CHECK(claims.expiry == token_time + 1);
        CHECK_FALSE(claims.rules);
    }
}

TEST_CASE("a token without a signature is refused, however it spells none") {
    TokenGate gate;
    gate.with_secret().with_key("rsa.pem", rsa().public_pem());
    for (const char* none : {"none", "None", "NONE", "nOnE", ""}) {
        const auto text = unsigned_token(std::string(R"({"alg":")") + none + "\"}", usual_claims);
        CHECK(gate.ask(text + ".") == "!no key matches its alg and kid");
        CHECK(gate.ask(text + "." + base64url(hmac(secret, text))) ==
              "!no key matches its alg and kid");
        CHECK(gate.ask(text) == "!it is not a signed token of three parts");
    }
    const auto text = unsigned_token(R"({"alg":"HS256"})", usual_claims);
    CHECK(gate.ask(text + ".") == "!its signature is wrong");
    CHECK(gate.ask(text + "." + base64url(hmac("", text))) == "!its signature is wrong");
}

TEST_CASE("a public key is no secret: HS256 signed with its text is refused") {
    TokenGate gate;
    const std::string pem = rsa().public_pem();
    gate.with_key("rsa.pem", pem);
    const std::string header = R"({"alg":"HS256","kid":"rsa.pem"})";
    CHECK(gate.ask(hs256(usual_claims, header, pem)) == "!no key matches its alg and kid");

    gate.with_secret();
    CHECK(gate.ask(hs256(usual_claims, header, pem)) == "!no key matches its alg and kid");
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":"HS256"})", pem)) == "!its signature is wrong");
}

TEST_CASE("a token's alg does not change what its key is for") {
    const Signer p256 = ec();
    TokenGate gate;
    gate.with_secret()
        .with_key("ec.pem", p256.public_pem())
        .with_key("rsa.pem", rsa().public_pem());
    for (const char* alg : {"RS256", "EdDSA", "HS256"})
        CHECK(gate.ask(signed_by(p256, std::string(R"({"alg":")") + alg + "\"}"))[0] == '!');
    for (const char* alg : {"RS384", "RS512", "PS256", "ES384", "ES512", "HS512", "hs256"})
        CHECK(gate.ask(hs256(usual_claims, std::string(R"({"alg":")") + alg + "\"}")) ==
              "!no key matches its alg and kid");
}

TEST_CASE("a signature by a stranger's key, of other claims, or changed anywhere is wrong") {
    TokenGate gate;
    gate.with_secret().with_key("rsa.pem", rsa().public_pem());
    CHECK(gate.ask(signed_by(other_rsa(), R"({"alg":"RS256"})")) == "!its signature is wrong");
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":"HS256"})",
                         "another secret of more than thirty-two bytes")) ==
          "!its signature is wrong");

    const auto good = hs256(usual_claims);
    const auto mallory = unsigned_token(R"({"alg":"HS256"})", R"({"sub":"mallory","exp":9e9})");
    CHECK(gate.ask(mallory + good.substr(good.rfind('.'))) == "!its signature is wrong");

    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string changed = good;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        CHECK(gate.ask(changed)[0] == '!');
    }
}

TEST_CASE("an ES256 signature is two numbers of 32 bytes and nothing else") {
    const Signer p256 = ec();
    TokenGate gate;
    gate.with_key("ec.pem", p256.public_pem());
    const auto text = unsigned_token(R"({"alg":"ES256"})", usual_claims);
    const auto good = p256.sign(text);
    CHECK(gate.ask(text + "." + base64url(good)) == "alice");
    for (const std::string& bad :
         {std::string(), good.substr(1), good + '\0', std::string(64, '\0'),
          std::string(64, '\xFF'), good.substr(0, 32) + std::string(32, '\0')})
        CHECK(gate.ask(text + "." + base64url(bad)) == "!its signature is wrong");
}

TEST_CASE("an expired token is refused from its second on, without leeway") {
    CHECK(ask(R"({"sub":"alice","exp":1800000001})") == "alice");
    CHECK(ask(R"({"sub":"alice","exp":1800000000})") == "!it is expired");
    CHECK(ask(R"({"sub":"alice","exp":1799999999.9})") == "!it is expired");
    CHECK(ask(R"({"sub":"alice","exp":1800000001.5})") == "alice");
    CHECK(ask(R"({"sub":"alice","exp":0})") == "!it is expired");
    CHECK(ask(R"({"sub":"alice","exp":-1})") == "!it is expired");
    for (const char* bad : {"\"1900000000\"", "null", "true", "[]", "{}", "1e300", "-1e300",
                            "18446744073709551615", "9223372036854775807"})
        CHECK(ask(std::string(R"({"sub":"alice","exp":)") + bad + "}") == "!its exp is not a time");
}

TEST_CASE("a token without expiry is good only where that is allowed") {
    CHECK(ask(R"({"sub":"alice"})") == "!it has no exp");
    TokenGate gate;
    gate.with_secret().settings.require_expiry = false;
    CHECK_FALSE(gate.claims(hs256(R"({"sub":"alice"})")).expiry);
    CHECK(gate.ask(hs256(R"({"sub":"alice","exp":1})")) == "!it is expired");
    CHECK(gate.ask(hs256(R"({"sub":"alice","exp":null})")) == "!its exp is not a time");
}

TEST_CASE("a token of the future is refused beyond a minute") {
    const auto with = [](const std::string& claim) {
        return ask(R"({"sub":"alice","exp":1900000000,)" + claim + "}");
    };
    CHECK(with(R"("nbf":1800000060)") == "alice");
    CHECK(with(R"("nbf":1800000061)") == "!it is not valid yet");
    CHECK(with(R"("nbf":"1")") == "!its nbf is not a time");
    CHECK(with(R"("nbf":-9000000000000000)") == "alice");
    CHECK(with(R"("iat":1800000060)") == "alice");
    CHECK(with(R"("iat":1800000061)") == "!it was issued in the future; compare the clocks");
    CHECK(with(R"("iat":[])") == "!its iat is not a time");
}

TEST_CASE("sub must be a text that can be a user") {
    const auto with = [](const std::string& sub) {
        return ask(R"({"exp":1900000000,"sub":)" + sub + "}");
    };
    CHECK(ask(R"({"exp":1900000000})") == "!it has no sub");
    for (const char* bad : {"1", "null", "true", R"(["alice"])", R"({"a":1})"})
        CHECK(with(bad) == "!its sub is not a string");
    CHECK(with("\"\"") == "!its sub is empty");
    CHECK(with("\"a\\u0000b\"") == "!its sub can't be an MQTT username");
    CHECK(with("\"a\\nb\"") == "!its sub can't be an MQTT username");
    CHECK(with("\"\xFF\"") == "!its claims can't be read");
    CHECK(with("\"\\ud800\"") == "!its claims can't be read");
    CHECK(with("\"a\\u002Fb \xC3\xA4\"") == "a/b \xC3\xA4");
}

TEST_CASE("two members of one name are refused, in the claims and in the header") {
    for (const char* bad : {R"({"sub":"alice","exp":1900000000,"sub":"bob"})",
                            R"({"sub":"alice","exp":1,"exp":1900000000})",
                            R"({"sub":"alice","exp":1900000000,"s\u0075b":"bob"})",
                            R"({"sub":"alice","exp":1900000000,"x":{"a":1,"a":2}})",
                            R"({"sub":"alice","exp":1900000000,"x":[{"a":1,"a":2}]})"})
        CHECK(ask(bad) == "!its claims can't be read");
    CHECK(ask(R"({"sub":"a:\"b\":\\","exp":1900000000,"x:":[{":\\\"":":"},{"a":1},{"a":2}]})") ==
          R"(a:"b":\)");
    CHECK(TokenGate().with_secret().ask(hs256(usual_claims, R"({"alg":"none","alg":"HS256"})")) ==
          "!its header can't be read");
}

TEST_CASE("a token's part that is not a JSON object is refused") {
    for (const char* bad : {"", "null", "[]", "\"alice\"", "{", "{\"sub\":\"alice\"}}", "{'sub':1}",
                            "{\"sub\":\"alice\",}", "\xEF\xBB\xBF{}", "{\"a\":NaN}"}) {
        CHECK(ask(bad) == "!its claims can't be read");
        CHECK(TokenGate().with_secret().ask(hs256(usual_claims, bad)) ==
              "!its header can't be read");
    }
    std::string deep;
    for (int i = 0; i < 1'000; ++i) deep += "[";
    CHECK(ask(R"({"sub":"alice","x":)" + deep) == "!its claims can't be read");
}

TEST_CASE("a header that asks for what is not known is refused") {
    TokenGate gate;
    gate.with_secret();
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":"HS256","crit":["b64"],"b64":false})")) ==
          "!it asks for extensions (crit)");
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":"HS256","crit":[]})")) ==
          "!it asks for extensions (crit)");
    CHECK(gate.ask(hs256(usual_claims, R"({})")) == "!it states no alg");
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":5})")) == "!it states no alg");
    CHECK(gate.ask(hs256(usual_claims, R"({"alg":"HS256","kid":5})")) ==
          "!its kid is not a string");
}

TEST_CASE("a token cut anywhere is refused") {
    const auto token = hs256(usual_claims);
    TokenGate gate;
    gate.with_secret();
    for (std::size_t size = 0; size < token.size(); ++size)
        CHECK(gate.ask(token.substr(0, size))[0] == '!');
}

TEST_CASE("a token with more or fewer dots is refused") {
    const auto token = hs256(usual_claims);
    for (const std::string& bad :
         {token + ".", "." + token, token + ".x", token + "..", std::string("."), std::string(".."),
          std::string("...."), std::string(8 * 1024, '.'), token.substr(0, token.rfind('.'))}) {
        CAPTURE(bad);
        CHECK(TokenGate().with_secret().ask(bad)[0] == '!');
    }
}

TEST_CASE("a token of 8 KiB is the longest") {
    const auto of_size = [](std::size_t size) {
        const std::string begin = R"({"sub":"alice","exp":1900000000,"x":")";
        std::string token;
        for (std::size_t padding = size * 7 / 10; token.size() < size; ++padding)
            token = hs256(begin + std::string(padding, 'x') + "\"}");
        return token;
    };
    CHECK(of_size(8 * 1024 - 2).size() <= 8 * 1024);
    CHECK(TokenGate().with_secret().ask(of_size(8 * 1024 - 2)) == "alice");
    CHECK(TokenGate().with_secret().ask(of_size(8 * 1024 + 1)) == "!it is longer than 8 KiB");
    CHECK(TokenGate().with_secret().ask(std::string(1'000'000, 'x')) == "!it is longer than 8 KiB");
}

TEST_CASE("base64url with padding, blanks, other letters or idle bits is refused") {
    const auto token = hs256(usual_claims);
    TokenGate gate;
    gate.with_secret();
    CHECK(gate.ask(token) == "alice");
    for (const char* behind : {"=", "==", " ", "\n", "+", "/", "A", "%", "\xFF"})
        CHECK(gate.ask(token + behind)[0] == '!');
    CHECK(gate.ask("=" + token) == "!its header can't be read");
    CHECK(gate.ask(" " + token) == "!its header can't be read");
    // 32 bytes leave two idle bits in the last of 43 letters.
    std::string idle = token;
    const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    idle.back() = letters[letters.find(idle.back()) + 1];
    CHECK(gate.ask(idle) == "!its signature can't be read");
}

TEST_CASE("the issuer and the audience are asked for where they are set") {
    const auto with = [](const std::string& claims) {
        return hs256(R"({"sub":"alice","exp":1900000000)" + claims + "}");
    };
    TokenGate any;
    any.with_secret();
    CHECK(any.ask(with(R"(,"iss":"x","aud":["y"])")) == "alice");

    TokenGate issued;
    issued.with_secret().settings.issuer = "https://id.example";
    CHECK(issued.ask(with(R"(,"iss":"https://id.example")")) == "alice");
    CHECK(issued.ask(with("")) == "!it has no iss");
    for (const char* bad : {"\"https://id.example/\"", "\"\"", "1", "[\"https://id.example\"]"})
        CHECK(issued.ask(with(std::string(",\"iss\":") + bad)) ==
              "!its iss is not the one asked for");

    TokenGate chat;
    chat.with_secret().settings.audience = "chat";
    CHECK(chat.ask(with(R"(,"aud":"chat")")) == "alice");
    CHECK(chat.ask(with(R"(,"aud":["mail","chat"])")) == "alice");
    CHECK(chat.ask(with("")) == "!it has no aud");
    for (const char* bad : {"\"mail\"", "[]", "[\"mail\",1]", "1", "{\"chat\":1}", "[[\"chat\"]]"})
        CHECK(chat.ask(with(std::string(",\"aud\":") + bad)) ==
              "!its aud is not the one asked for");
}

TEST_CASE("a token may bring the rules of its client") {
    const auto with = [](const std::string& acl) {
        return hs256(R"({"sub":"alice","exp":1900000000,"acl":)" + acl + "}");
    };
    TokenGate gate;
    gate.with_secret();
    const auto claims =
        gate.claims(with(R"(["deny write room/x","allow readwrite room/#","allow read \"a b\""])"));
    REQUIRE(claims.rules);
    const Who alice{claims.user, "phone"};
    CHECK(claims.rules->may_publish(alice, "room/lobby"));
    CHECK_FALSE(claims.rules->may_publish(alice, "room/x"));
    CHECK(claims.rules->may_subscribe(alice, "a b"));
    CHECK_FALSE(claims.rules->may_subscribe(alice, "inbox/alice"));

    const auto nothing = gate.claims(with("[]"));
    REQUIRE(nothing.rules);
    CHECK_FALSE(nothing.rules->may_publish(alice, "room/lobby"));

    CHECK(gate.ask(with("\"allow read #\"")) == "!its acl is not an array");
    CHECK(gate.ask(with("null")) == "!its acl is not an array");
    CHECK(gate.ask(with("[\"allow read a\",5]")) == "!rule 2 of its acl is not a string");
    const auto bad = gate.ask(with("[\"allow read topsecret/#/x\"]"));
    CHECK(bad.starts_with("!rule 1 of its acl has no valid topic filter"));
    CHECK(bad.find("topsecret") == std::string::npos);
}

TEST_CASE("random bytes are refused") {
    TokenGate gate;
    gate.with_secret().with_key("rsa.pem", rsa().public_pem());
    const JwtVerifier verifier(gate.settings);
    std::mt19937 random(7'519);
    const auto good = hs256(usual_claims);
    for (int round = 0; round < 5'000; ++round) {
        std::string noise = good;
        for (auto changes = 1 + random() % 4; changes > 0; --changes) {
            const auto at = random() % noise.size();
            if (random() % 2 != 0)
                noise[at] = static_cast<char>(random());
            else
                noise.erase(at, random() % 8);
            if (noise.empty()) noise = ".";
        }
        if (noise == good) continue;
        CHECK(std::holds_alternative<JwtRefusal>(verifier.verify(noise, token_time)));
    }
}

TEST_CASE("many threads may verify at the same time") {
    const Signer p256 = ec();
    TokenGate gate;
    gate.with_secret()
        .with_key("rsa.pem", rsa().public_pem())
        .with_key("ec.pem", p256.public_pem());
    const JwtVerifier verifier(gate.settings);
    const std::vector<std::string> tokens{hs256(usual_claims),
                                          signed_by(rsa(), R"({"alg":"RS256"})"),
                                          signed_by(p256, R"({"alg":"ES256"})")};
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int& mistakes : wrong)
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i)
                for (const auto& token : tokens)
                    mistakes +=
                        !std::holds_alternative<JwtClaims>(verifier.verify(token, token_time));
        });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(4));
}
