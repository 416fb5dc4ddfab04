# Images without a registry: files packed by labctl, under the very names by which manifests ask for them, so that
# nothing is ever pulled. Sourced.

# libraries PROGRAM: what labctl image needs to put in for a program that is not static, its loader included.
libraries() {
    local file
    ldd "$1" 2>/dev/null | grep -oE '/[^ ]+' | while read -r file; do echo "$(realpath "$file"):$file"; done
}

# pack IMAGES FILE NAMES PROGRAM PATH [USER [FILE:PATH...]]: IMAGES/FILE.tar with PROGRAM as PATH, and with other files, unless it is
# newer than the program.
pack() {
    local tar=$1/$2.tar
    [ ! -f "$tar" ] || [ "$4" -nt "$tar" ] || return 0
    # shellcheck disable=SC2046 # one argument a library
    "$labctl" image -o "$tar.new" -name "$3" -entrypoint "$5" -user "${6:-}" "$4:$5" $(libraries "$4") "${@:7}"
    mv "$tar.new" "$tar"
}

# suite_images NAME: the references to that image in the manifests of the conformance suite, separated by commas.
suite_images() {
    local folder
    folder=$(cd e2e/suite && go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api/conformance)
    grep -rhoE "image: *[^ ]+/$1:[^ ]+" "$folder" --include='*.yaml' | awk '{print $2}' | sort -u | paste -sd,
}

# build_images FOLDER: FOLDER/images from FOLDER/bin and the Envoy that make installs.
build_images() {
    local bin=$1/bin images=$1/images envoy version
    labctl=$bin/labctl
    envoy=$(realpath .tools/envoy/bin/envoy)
    version=$("$envoy" --version | grep -oP 'version: [^/]+/\K[^/]+')
    pack "$images" pause e2e.local/pause:1 "$bin/pause" /pause
    pack "$images" echo-basic "$(suite_images echo-basic)" "$bin/echo-basic" /echo-basic nonroot:nonroot
    pack "$images" coredns "$(suite_images coredns)" "$bin/coredns" /coredns
    # What is published as Envoy's image, by its names; the program is the one of the tests. Portcullis judges in it, which is not
    # static here as it is in its own image.
    local unwinds
    unwinds=$(cc -print-file-name=libgcc_s.so.1)
    pack "$images" envoy "docker.io/envoyproxy/envoy:v$version,docker.io/envoyproxy/envoy:distroless-v$version" \
        "$envoy" /usr/local/bin/envoy nonroot:nonroot "$(realpath "$unwinds"):/lib/$(cc -print-multiarch)/libgcc_s.so.1"
}
