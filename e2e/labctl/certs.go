package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// authority signs for one cluster and writes what it signs into a folder.
type authority struct {
	dir         string
	certificate *x509.Certificate
	pem         []byte
	key         *ecdsa.PrivateKey
}

// The names of an API server in any cluster, besides its addresses.
var apiServerNames = []string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local"}

func certs(args []string) error {
	if len(args) != 4 {
		return errors.New("want DIR NODE IP,... SERVER")
	}
	dir, node, addresses, server := args[0], args[1], strings.Split(args[2], ","), args[3]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	certificates := []struct {
		file, user, group string
		names             []string
		kubeconfig        bool
	}{
		{file: "apiserver", user: "kube-apiserver", names: append(apiServerNames, addresses...)},
		{file: "apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", group: "system:masters"},
		{file: "kubelet-server", user: node, names: append([]string{node}, addresses...)},
		{file: "admin", user: "admin", group: "system:masters", kubeconfig: true},
		{file: "kube-controller-manager", user: "system:kube-controller-manager", kubeconfig: true},
		{file: "kube-scheduler", user: "system:kube-scheduler", kubeconfig: true},
		{file: "kube-proxy", user: "system:kube-proxy", kubeconfig: true},
		{file: "kubelet", user: "system:node:" + node, group: "system:nodes", kubeconfig: true},
	}
	for _, c := range certificates {
		certificate, key, err := ca.issue(c.file, c.user, c.group, c.names)
		if err != nil {
			return err
		}
		if c.kubeconfig {
			if err := ca.kubeconfig(c.file, server, certificate, key); err != nil {
				return err
			}
		}
	}
	return ca.tokenKeys()
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &authority{dir: dir, key: key}
	template := newTemplate("e2e authority", "")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	ca.certificate = template
	if ca.pem, err = ca.sign("ca", template, key); err != nil {
		return nil, err
	}
	_, err = ca.writeKey("ca.key", key)
	return ca, err
}

func newTemplate(user, group string) *x509.Certificate {
	// Of 120 random bits, so that no two certificates of an authority have one number.
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	if group != "" {
		template.Subject.Organization = []string{group}
	}
	return template
}

// issue writes NAME.crt and NAME.key, good for clients and for servers.
func (ca *authority) issue(name, user, group string, names []string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := newTemplate(user, group)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if certificate, err = ca.sign(name, template, private); err != nil {
		return nil, nil, err
	}
	key, err = ca.writeKey(name+".key", private)
	return certificate, key, err
}

func (ca *authority) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	return ca.write(name+".crt", "CERTIFICATE", der)
}

func (ca *authority) kubeconfig(name, server string, certificate, key []byte) error {
	encode := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: %s, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: e2e, context: {cluster: e2e, user: %s}}]
current-context: e2e
`, server, encode(ca.pem), name, encode(certificate), encode(key), name)
	return os.WriteFile(filepath.Join(ca.dir, name+".kubeconfig"), []byte(text), 0o600)
}

// tokenKeys writes sa.key and sa.pub, by which tokens of ServiceAccounts are signed and known.
func (ca *authority) tokenKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if _, err := ca.writeKey("sa.key", key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	_, err = ca.write("sa.pub", "PUBLIC KEY", public)
	return err
}

func (ca *authority) writeKey(name string, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return ca.write(name, "EC PRIVATE KEY", der)
}

func (ca *authority) write(name, kind string, der []byte) ([]byte, error) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return text, os.WriteFile(filepath.Join(ca.dir, name), text, 0o600)
}
