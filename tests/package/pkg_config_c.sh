# pkg_config_c.sh COMPILER SOURCE PROGRAM [FLAG...]: a C compiler and pkg-config alone.
set -eu
compiler=$1 source=$2 program=$3
shift 3
# Not quoted: flags are words.
$compiler -std=c11 -Wall -Wextra -Wpedantic -Werror "$@" $(pkg-config --cflags takt_c) "$source" -o "$program" \
  $(pkg-config --libs takt_c)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir takt_c) "$program"
