package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"runtime"
	"sort"
	"strconv"
	"strings"
)

// descriptor points at a blob, as OCI's image specification has it.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
const group = "root:x:0:\nnonroot:x:65532:\n"

// image writes an OCI image layout as a tar: one layer, made of the files named, and nothing that depends on the time.
func image(args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	out := flags.String("o", "", "the tar to write")
	names := flags.String("name", "", "full references, separated by commas")
	entrypoint := flags.String("entrypoint", "", "program and arguments, separated by commas")
	user := flags.String("user", "", "who runs it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	layer, err := newLayer(flags.Args())
	if err != nil {
		return err
	}

	blobs := map[string][]byte{}
	add := func(mediaType string, blob []byte) descriptor {
		sum := sha256.Sum256(blob)
		digest := hex.EncodeToString(sum[:])
		blobs[digest] = blob
		return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: int64(len(blob))}
	}
	addJSON := func(mediaType string, value any) (descriptor, error) {
		blob, err := json.Marshal(value)
		return add(mediaType, blob), err
	}

	files := add("application/vnd.oci.image.layer.v1.tar", layer)
	config, err := addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": list(*entrypoint), "User": *user, "WorkingDir": "/",
			"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{files.Digest}},
	})
	if err != nil {
		return err
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := addJSON(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{files}})
	if err != nil {
		return err
	}
	var manifests []descriptor
	for _, name := range list(*names) {
		named := manifest
		named.Annotations = map[string]string{"io.containerd.image.name": name}
		manifests = append(manifests, named)
	}
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	return writeLayout(*out, index, blobs)
}

func writeLayout(out string, index []byte, blobs map[string][]byte) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	layout := archive{tar.NewWriter(file), map[string]bool{}}
	digests := make([]string, 0, len(blobs))
	for digest := range blobs {
		digests = append(digests, digest)
	}
	sort.Strings(digests)
	if err := layout.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	if err := layout.file("index.json", 0o644, index); err != nil {
		return err
	}
	for _, digest := range digests {
		if err := layout.file("blobs/sha256/"+digest, 0o644, blobs[digest]); err != nil {
			return err
		}
	}
	if err := layout.Close(); err != nil {
		return err
	}
	return file.Close()
}

// newLayer packs files given as SRC:DST[:MODE], with users and a folder for temporary files.
func newLayer(files []string) ([]byte, error) {
	var buffer bytes.Buffer
	layer := archive{tar.NewWriter(&buffer), map[string]bool{}}
	if err := layer.folder("tmp", 0o1777); err != nil {
		return nil, err
	}
	if err := layer.file("etc/passwd", 0o644, []byte(passwd)); err != nil {
		return nil, err
	}
	if err := layer.file("etc/group", 0o644, []byte(group)); err != nil {
		return nil, err
	}
	sort.Strings(files)
	for _, file := range files {
		parts := strings.Split(file, ":")
		if len(parts) < 2 {
			return nil, fmt.Errorf("want SRC:DST[:MODE], got %q", file)
		}
		mode := int64(0o755)
		if len(parts) > 2 {
			parsed, err := strconv.ParseInt(parts[2], 8, 32)
			if err != nil {
				return nil, err
			}
			mode = parsed
		}
		content, err := os.ReadFile(parts[0])
		if err != nil {
			return nil, err
		}
		if err := layer.file(parts[1], mode, content); err != nil {
			return nil, err
		}
	}
	err := layer.Close()
	return buffer.Bytes(), err
}

// archive is a tar that makes the folders of its files.
type archive struct {
	*tar.Writer
	folders map[string]bool
}

func (a archive) folder(name string, mode int64) error {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" || a.folders[name] {
		return nil
	}
	if err := a.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	a.folders[name] = true
	return a.WriteHeader(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode})
}

func (a archive) file(name string, mode int64, content []byte) error {
	name = strings.TrimPrefix(name, "/")
	if err := a.folder(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := a.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := a.Write(content)
	return err
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
