#!/bin/sh
# Installs a tree in which only the tool is built, as after `cmake --workflow --preset tool`. Usage: SOURCE TREE TAKT.
set -e
rm -rf "$2"
cmake -G Ninja -S "$1" -B "$2" -DTAKT_C=OFF -DTAKT_TESTS=OFF -DTAKT_EXAMPLES=OFF -DTAKT_INTEGRATIONS=OFF -DTAKT_SOLVERS=OFF
mkdir -p "$2/bin"
cp "$3" "$2/bin/takt"
for library in $(ninja -C "$2" -t inputs takt_cli | grep '\.a$' | grep '^src/'); do
  : > "$2/$library"  # the install rules only copy it
done
cmake --install "$2" --prefix "$2/prefix" > "$2/install.log"
"$2/prefix/bin/takt" --version
