# page.sh PAGE SOURCE BUILD LAUNCHER UNITY: the commands of a page, in its order, in an empty folder. What the page builds first
# is there already: SOURCE is the clone, BUILD its build.
set -eu
page=$1 TAKT=$2 built=$3
export CMAKE_CXX_COMPILER_LAUNCHER=$4
PREFIX=$PWD/prefix
# A block that names a file is that file.
awk '
  /^```sh$/ { on = 1; next }
  /^```cmake / { on = 1; print "cat >" $2 " <<\\END"; end = "END"; next }
  /^```/ { if (end) print end; on = 0; end = "" }
  on' "$page" >commands
# The library is not built again; what is installed of it is what the page's options leave. Inside a project it is built
# again, and then several sources at once where SOURCE's own build does so: a third of the time.
sed -i -e "s|^scripts/|$TAKT/&|" -e "1,/^cmake --install/{
  s|^cmake -G Ninja|& -S $TAKT|
  s|^cmake --build build\$|:|
  s|^cmake --install build.*|for part in development documentation; do cmake --install $built --prefix $PREFIX --component takt_\$part; done|
}
s|^cmake -G Ninja -S inside|& -DTAKT_UNITY=$5|" commands
grep -q "cmake --install $built" commands && grep -q '^\./host_static' commands
set -x
. ./commands
