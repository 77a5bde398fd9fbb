#!/bin/sh
# deb.sh SOURCE BUILD FOLDER COMPILER: builds the packages of a release from a finished build, unpacks them without
# installing, and uses them.
set -eu
source=$1 build=$2 folder=$3 compiler=$4
fail() { echo "deb.sh: $*" >&2; exit 1; }
rm -rf "$folder"
"$source/scripts/packages" --built "$build" "$folder"
cd "$folder"
version=$(sed -n 's/^#define TAKT_VERSION "\(.*\)"$/\1/p' "$source/include/takt/version.h")
sha256sum -c --quiet SHA256SUMS

for package in libtakt-c0 libtakt-dev takt takt-doc; do
  dpkg-deb -x "$package"_*.deb root
  dpkg-deb -c "$package"_*.deb | awk '{print $6}' | sed 's,^\.,,' | grep -v '/$' >"$package.files"
  for file in copyright changelog.Debian.gz; do
    grep -qx "/usr/share/doc/$package/$file" "$package.files" || fail "$package has no $file"
  done
  [ "$(dpkg-deb -f "$package"_*.deb Version)" = "$version-1" ] || fail "the version of $package"
done
has() { grep -q "$2" "$1.files" || fail "$1 has no $2"; }
hasnot() { if grep "$2" "$1.files"; then fail "$1 has $2"; fi; }
depends() { dpkg-deb -f "$1"_*.deb Depends | grep -qF "$2" || fail "$1 does not depend on $2"; }
has libtakt-c0 '/libtakt_c\.so\.0$'
hasnot libtakt-c0 '/libtakt_c\.\(so\|a\)$\|/include/\|\.pc$\|\.cmake$'
has libtakt-dev '/libtakt_c\.so$'
has libtakt-dev '/libtakt_c\.a$'
has libtakt-dev '/libtakt\.a$'
has libtakt-dev '/include/takt/c/takt\.h$'
has libtakt-dev '/include/takt/scheduler/'
has libtakt-dev '/pkgconfig/takt\.pc$'
has libtakt-dev '/cmake/takt/taktConfig\.cmake$'
hasnot libtakt-dev '\.so\.0\|/bin/'
has takt '^/usr/bin/takt$'
has takt '^/usr/bin/takt-plan$'
has takt '/bash-completion/completions/takt$'
hasnot takt '/lib/\|/include/'
has takt-doc '/doc/takt/examples/step_loop\.cc$'
python3 - root/usr/share/doc/takt <<'PYTHON'
import pathlib, re, sys
links = dead = 0
for page in pathlib.Path(sys.argv[1]).rglob("*.md"):
    for link in re.findall(r"\]\(([^)#:\s]+)[)#]", re.sub(r"(?ms)^```.*?^```", "", page.read_text())):
        links += 1
        if not (page.parent / link).exists():
            dead += 1
            print(f"{page}: {link} leads nowhere", file=sys.stderr)
sys.exit(0 if links > 1000 and dead == 0 else f"{dead} of {links} links of takt-doc are dead")
PYTHON
depends libtakt-c0 'libc6 (>='
depends libtakt-c0 'libstdc++6'
depends libtakt-dev "libtakt-c0 (= $version-1)"
depends libtakt-dev libabsl-dev
depends takt libfmt9

libraries=$(dirname "$(find root -name libtakt_c.so.0)")
readelf -d "$libraries/libtakt_c.so.0" | grep -q 'SONAME.*\[libtakt_c\.so\.0\]' || fail 'the SONAME'
root/usr/bin/takt --version | grep -F "$version"
root/usr/bin/takt replay --limit 50 --quiet >/dev/null
export PKG_CONFIG_PATH="$PWD/$libraries/pkgconfig"
sh "$source/tests/package/pkg_config_c.sh" "${CC:-cc}" "$source/tests/c/host.c" "$PWD/host"
# shellcheck disable=SC2046  # flags are words
"${CC:-cc}" -std=c11 "$source/tests/c/host.c" $(pkg-config --cflags takt_c) "$libraries/libtakt_c.a" -lstdc++ -lm \
  -o host_static
./host_static
# shellcheck disable=SC2046
"$compiler" -std=c++20 root/usr/share/doc/takt/examples/step_loop.cc $(pkg-config --cflags --libs takt) -o step_loop
./step_loop

# A module of Go outside the tree, with the archive and, with the tag takt_pkgconfig, with the shared library.
if command -v go >/dev/null; then
  mkdir module user
  tar -xzf "takt-$version.tar.gz" -C module --strip-components=3 "takt-$version/bindings/go"
  cat >user/go.mod <<END
module user

go 1.24

require takt v0.0.0

replace takt => ../module
END
  cat >user/main.go <<'END'
package main

import (
	"fmt"
	"takt"
)

func main() {
	router, err := takt.NewRouter(takt.RouterOptions{Policy: "sjf", Placement: "round_robin"})
	fmt.Println(router != nil, err)
}
END
  export GOFLAGS=-mod=mod GOPROXY=off
  (cd user && CGO_CFLAGS="-I$folder/root/usr/include" CGO_LDFLAGS="-L$folder/$libraries" go run .) |
    grep -x 'true <nil>'
  (cd user && LD_LIBRARY_PATH="$folder/$libraries" go run -tags takt_pkgconfig .) | grep -x 'true <nil>'
fi

# The source archive: the same bytes twice, all tracked files, and no others.
git -C "$source" archive --prefix="takt-$version/" --format=tar HEAD | gzip -9n | cmp - "takt-$version.tar.gz"
[ "$(tar -tzf "takt-$version.tar.gz" | grep -vc '/$')" = "$(git -C "$source" ls-tree -r HEAD | wc -l)" ] ||
  fail 'the source archive lacks files'

python3 - "takt-$version.spdx.json" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1]))
names = {package["SPDXID"]: package for package in document["packages"]}
assert document["spdxVersion"] == "SPDX-2.3"
for relation in document["relationships"]:
    assert relation["relatedSpdxElement"] in names, relation
for library in ("abseil", "eigen3", "fmtlib", "zlib", "nlohmann-json3", "cli11", "gcc-12"):
    package = names["SPDXRef-" + library]
    assert package["versionInfo"] and package["licenseDeclared"] != "NOASSERTION", library
PYTHON
