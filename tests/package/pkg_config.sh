# pkg_config.sh COMPILER SOURCE PROGRAM [FLAG...]: no CMake, a compiler and pkg-config alone.
set -eu
compiler=$1 source=$2 program=$3
shift 3
# Not quoted: flags are words.
$compiler -std=c++20 -Wall -Wextra -Wconversion -Werror "$@" $(pkg-config --cflags takt) "$source" -o "$program" \
  $(pkg-config --libs takt)
"$program"
