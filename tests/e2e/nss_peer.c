// A client of NSS: it updates its keys, asks for ours every second time, pings, and gets its own message.
#include <cert.h>
#include <certdb.h>
#include <nss.h>
#include <prio.h>
#include <prnetdb.h>
#include <ssl.h>
#include <sslexp.h>
#include <sslproto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int is_right, const char* what) {
    if (is_right) return;
    printf("%s: %s\n", what, PORT_ErrorToName(PR_GetError()));
    exit(1);
}

static void receive(PRFileDesc* tls, const char* expected, int size) {
    char heard[2048];
    int has = 0;
    while (has < size) {
        const int more = PR_Recv(tls, heard + has, size - has, 0, PR_INTERVAL_NO_TIMEOUT);
        check(more > 0, "read");
        has += more;
    }
    check(memcmp(heard, expected, size) == 0, "another answer");
}

static void trust(const char* path) {
    static char pem[16384];
    FILE* file = fopen(path, "r");
    const size_t size = fread(pem, 1, sizeof pem, file);
    fclose(file);
    CERTCertificate* authority = CERT_DecodeCertFromPackage(pem, size);
    CERTCertTrust trusted = {.sslFlags = CERTDB_VALID_CA | CERTDB_TRUSTED_CA};
    check(authority && CERT_ChangeCertTrust(CERT_GetDefaultCertDB(), authority, &trusted) == SECSuccess, "authority");
}

int main(int argc, char** argv) {
    check(NSS_NoDB_Init(NULL) == SECSuccess && NSS_SetDomesticPolicy() == SECSuccess, "start");
    trust(argv[2]);
    PRFileDesc* tls = SSL_ImportFD(NULL, PR_NewTCPSocket());
    const SSLVersionRange versions = {SSL_LIBRARY_VERSION_TLS_1_3, SSL_LIBRARY_VERSION_TLS_1_3};
    check(SSL_VersionRangeSet(tls, &versions) == SECSuccess && SSL_SetURL(tls, "localhost") == SECSuccess, "options");
    const PRSocketOptionData at_once = {.option = PR_SockOpt_NoDelay, .value = {.no_delay = PR_TRUE}};
    check(PR_SetSocketOption(tls, &at_once) == PR_SUCCESS, "no delay");
    PRNetAddr address;
    PR_InitializeNetAddr(PR_IpAddrLoopback, atoi(argv[1]), &address);
    check(PR_Connect(tls, &address, PR_INTERVAL_NO_TIMEOUT) == PR_SUCCESS, "connect");
    check(SSL_ResetHandshake(tls, PR_FALSE) == SECSuccess && SSL_ForceHandshake(tls) == SECSuccess, "handshake");
    check(PR_Write(tls, "\x10\x0d\0\4MQTT\4\2\0\x0a\0\1n", 15) == 15, "write");
    receive(tls, "\x20\2\0\0", 4);
    check(PR_Write(tls, "\x82\6\0\1\0\1a\0", 8) == 8, "write");
    receive(tls, "\x90\3\0\1\0", 5);
    char message[1203] = "\x30\xb0\x09\0\1a";
    for (int i = 0; i < 100; ++i) {
        check(SSL_KeyUpdate(tls, i % 2 == 0) == SECSuccess, "update of keys");
        check(PR_Write(tls, "\xc0\0", 2) == 2, "write");
        receive(tls, "\xd0\0", 2);
        memset(message + 6, 'a' + i % 26, sizeof message - 6);
        check(PR_Write(tls, message, sizeof message) == sizeof message, "write");
        receive(tls, message, sizeof message);
    }
    check(PR_Write(tls, "\xe0\0", 2) == 2, "write");
    char rest;
    check(PR_Read(tls, &rest, 1) == 0, "no close_notify");
    puts("done");
    return 0;
}
