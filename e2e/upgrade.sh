#!/usr/bin/env bash
# Shows that an upgrade costs no request, and nothing of what is kept, while a tree of routes is kept that is broken now:
# PREVIOUS=CHECKOUT e2e/upgrade.sh. The checkout of an earlier commit, with its program in target/debug, is installed by its own
# charts, then this one, that again, and this again. PORTCULLIS_BIN names a program of this one that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
. e2e/steps.sh
previous=$(cd "${PREVIOUS:?the checkout of an earlier commit}" && pwd)
earlier=$previous/target/debug/portcullis
[ -x "$earlier" ] || { echo "$earlier is missing: build it there" >&2; exit 1; }
[ -e "$previous/.tools" ] || ln -s "$PWD/.tools" "$previous/.tools"

in_a_cluster
before() { PORTCULLIS_BIN=$earlier "$previous/e2e/install.sh" --set freeze.enabled=true; }
now() { e2e/install.sh --set freeze.enabled=true; }
# kept KIND NAME: what it has is kept, and stays so.
kept() { told "$1" "$2" portcullis.dev/Frozen True; }
breaks() { child gone && kept httproute tree; }
mends() { child echo "$1" && told httproute tree portcullis.dev/Frozen False && answers "$1" 200; }
# records: the formats of what is stored of trees, by their names.
records() {
    kubectl -n portcullis-system get secret -l portcullis.dev/record=edition -o json | python3 -c 'import base64, gzip, json, sys
for secret in json.load(sys.stdin)["items"]:
    for data in map(base64.b64decode, secret.get("data", {}).values()):
        record = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        print("   ", secret["metadata"]["name"][:16], "of format", record["format"])'
}

say "an earlier build, which keeps a tree that is broken now"
before >/dev/null
serve
tree
child echo
keep
told httproute tree portcullis.dev/Frozen False
answers / 200
breaks
load_host=tree.example.com
records

say "the upgrade"
under_load "the upgrade" now
kept httproute tree
say "what only the later one knows is kept: policies of a Gateway"
kubectl -n shop annotate gateway edge portcullis.dev/failure-mode=FreezeConfig >/dev/null
told gateway edge portcullis.dev/Frozen False
under_load "a child that is mended" mends /later
under_load "a child that breaks" breaks
answers /later 200
records

say "back to the earlier one, which reads what the later one kept"
under_load "the way back" before
kept httproute tree
answers /later 200
records

say "the upgrade once more"
under_load "the second upgrade" now
kept httproute tree
answers /later 200
told gateway edge portcullis.dev/Frozen False
under_load "a child that is mended" mends /mended
records

say "all is well"
