// A client of wolfSSL: it updates its keys and asks for ours before each ping. With a third argument it takes records of 512
// bytes at most.
#include <wolfssl/options.h>
#include <wolfssl/ssl.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void check(int is_right, const char* what) {
    if (is_right) return;
    puts(what);
    exit(1);
}

static void receive(WOLFSSL* ssl, const char* expected, int size) {
    char heard[16];
    int has = 0;
    while (has < size) {
        const int more = wolfSSL_read(ssl, heard + has, size - has);
        check(more > 0, "read");
        has += more;
    }
    check(memcmp(heard, expected, size) == 0, "another answer");
}

int main(int argc, char** argv) {
    WOLFSSL_CTX* context = wolfSSL_CTX_new(wolfTLSv1_3_client_method());
    check(context && wolfSSL_CTX_load_verify_locations(context, argv[2], NULL) == WOLFSSL_SUCCESS, "certificate");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket_of_it = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(socket_of_it, (struct sockaddr*)&address, sizeof address) == 0, "connect");
    WOLFSSL* ssl = wolfSSL_new(context);
    check(wolfSSL_check_domain_name(ssl, "localhost") == WOLFSSL_SUCCESS, "name");
    if (argc > 3) check(wolfSSL_UseMaxFragment(ssl, WOLFSSL_MFL_2_9) == WOLFSSL_SUCCESS, "fragments");
    check(wolfSSL_set_fd(ssl, socket_of_it) == WOLFSSL_SUCCESS && wolfSSL_connect(ssl) == WOLFSSL_SUCCESS, "handshake");
    check(wolfSSL_write(ssl, "\x10\x0d\0\4MQTT\4\2\0\x0a\0\1w", 15) == 15, "write");
    receive(ssl, "\x20\2\0\0", 4);
    for (int i = 0; i < 100; ++i) {
        check(wolfSSL_update_keys(ssl) == WOLFSSL_SUCCESS, "update of keys");
        check(wolfSSL_write(ssl, "\xc0\0", 2) == 2, "write");
        receive(ssl, "\xd0\0", 2);
    }
    check(wolfSSL_write(ssl, "\xe0\0", 2) == 2, "write");
    char rest;
    check(wolfSSL_read(ssl, &rest, 1) <= 0 && wolfSSL_get_error(ssl, 0) == WOLFSSL_ERROR_ZERO_RETURN, "no close_notify");
    puts("done");
    return 0;
}
