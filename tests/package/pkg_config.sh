# pkg_config.sh COMPILER SOURCES PROGRAM [FLAG...]: builds without CMake, with a compiler and pkg-config alone.
set -eu
compiler=$1 sources=$2 program=$3
shift 3
build() {  # SOURCE PACKAGE; not quoted: flags are words
  $compiler -std=c++20 -Wall -Wextra -Wconversion -Werror $flags $(pkg-config --cflags "$2") "$sources/$1" \
    -o "$program" $(pkg-config --libs "$2")
  "$program"
}
flags=$*
build consumer.cc takt
build core_consumer.cc takt_core
build rivals_consumer.cc takt_rivals
# A step loop needs no solver, no formatting, and only Abseil's headers.
if pkg-config --cflags --libs takt | grep -iE 'fmt|cbc|clp|lapack|bz2|coin'; then exit 1; fi
