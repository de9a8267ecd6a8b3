// A client of Go: three connections one after the other. Those after the first are to be resumed.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	pem, err := os.ReadFile(os.Args[2])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13,
		ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := 0; i < 3; i++ {
		client, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[1], config)
		check(err)
		_, err = client.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01g"))
		check(err)
		_, err = io.ReadFull(client, make([]byte, 4))
		check(err)
		for j := 0; j < 1000; j++ {
			_, err = client.Write([]byte{0xc0, 0})
			check(err)
		}
		_, err = io.ReadFull(client, make([]byte, 2000))
		check(err)
		_, err = client.Write([]byte{0xe0, 0})
		check(err)
		rest, err := io.ReadAll(client) // an error without close_notify
		check(err)
		fmt.Println(client.ConnectionState().DidResume, len(rest))
		client.Close()
	}
}
