package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"
)

// client speaks JSON with an API server.
type client struct {
	server string
	http   *http.Client
}

// newClient reads a kubeconfig that `labctl certs` wrote, which needs no YAML library.
func newClient(file string) (*client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	field := func(name string) string {
		found := regexp.MustCompile(name + `:\s*"?([^",}\s]+)`).FindSubmatch(text)
		if found == nil {
			return ""
		}
		return string(found[1])
	}
	data := func(name string) []byte {
		decoded, _ := base64.StdEncoding.DecodeString(field(name))
		return decoded
	}
	pair, err := tls.X509KeyPair(data("client-certificate-data"), data("client-key-data"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data("certificate-authority-data"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	return &client{field("server"), &http.Client{Timeout: 30 * time.Second, Transport: transport}}, nil
}

// do sends body, a merge patch if the method is PATCH, and reads the answer into answer.
func (c *client) do(method, path string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, c.server+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
