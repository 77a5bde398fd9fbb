# page.sh PAGE SOURCE BUILD LAUNCHER UNITY: runs the commands of a page in order in an empty folder. SOURCE is the clone
# and BUILD
# its build.
set -eu
page=$1 TAKT=$2 built=$3
export TAKT CMAKE_CXX_COMPILER_LAUNCHER=$4
PREFIX=$PWD/prefix
# A block that names a file is that file.
awk '
  /^```sh$/ { on = 1; next }
  /^```cmake / { on = 1; print "cat >" $2 " <<\\END"; end = "END"; next }
  /^```/ { if (end) print end; on = 0; end = "" }
  on' "$page" >commands
# The library is not built again; the page's options select what is installed. Inside a project it is built again.
# Several
# sources are compiled at once if SOURCE's own build does so, which takes a third of the time.
sed -i -e "s|^scripts/|$TAKT/&|" -e "1,/^cmake --install/{
  s|^cmake -G Ninja|& -S $TAKT|
  s|^cmake --build build\$|:|
  s|^cmake --install build.*|for part in development documentation; do cmake --install $built --prefix $PREFIX --component takt_\$part; done|
}
s/^cmake -G Ninja -S \(inside\|fetched\)/& -DTAKT_UNITY=$5/" commands
grep -q "cmake --install $built" commands && grep -q '^\./host_static' commands
set -x
. ./commands
