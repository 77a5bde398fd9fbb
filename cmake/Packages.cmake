# Debian packages of the components, for CPack. `scripts/packages` makes them.
find_program(TAKT_SHLIBDEPS dpkg-shlibdeps)
if(NOT TAKT_SHLIBDEPS OR NOT TARGET takt_c OR NOT TARGET takt_cli)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_CONTACT "The takt developers <developers@takt.invalid>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Each package has its licences and Debian's log of changes. SOURCE_DATE_EPOCH sets the date.
string(TIMESTAMP _takt_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog.Debian "takt (${PROJECT_VERSION}-1) unstable; urgency=medium

  * CHANGELOG.md in the package takt-doc has the changes for users.

 -- ${CPACK_PACKAGE_CONTACT}  ${_takt_date}
")
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/debian/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)

# takt_deb(NAME SECTION DESCRIPTION COMPONENT... [DEPENDS packages] [RECOMMENDS packages]): a package of components. The
# first line of the description is the summary. Shared libraries of programs are found by dpkg-shlibdeps.
macro(takt_deb name section description)
  cmake_parse_arguments(_deb "" "DEPENDS;RECOMMENDS" "" ${ARGN})
  string(MAKE_C_IDENTIFIER ${name} _group)
  string(TOUPPER ${_group} _deb_prefix)
  set(CPACK_DEBIAN_${_deb_prefix}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${_deb_prefix}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${_deb_prefix}_DESCRIPTION "${description}")
  set(CPACK_DEBIAN_${_deb_prefix}_PACKAGE_DEPENDS "${_deb_DEPENDS}")
  set(CPACK_DEBIAN_${_deb_prefix}_PACKAGE_RECOMMENDS "${_deb_RECOMMENDS}")
  install(FILES ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
    DESTINATION share/doc/${name} COMPONENT takt_about_${_group} EXCLUDE_FROM_ALL)
  foreach(_component ${_deb_UNPARSED_ARGUMENTS} takt_about_${_group})
    list(APPEND CPACK_COMPONENTS_ALL ${_component})
    string(TOUPPER ${_component} _component)
    set(CPACK_COMPONENT_${_component}_GROUP ${_group})
  endforeach()
endmacro()

set(_takt_same_version "(= ${PROJECT_VERSION}-1)")
takt_deb(libtakt-c0 libs "scheduler of LLM serving engines: the library of the C interface
takt plans every iteration of an engine that serves large language models:
which requests run, and for how many tokens. This package has the shared
library for programs in C, and in languages that call C." takt_c)
# Packages of programs that link the library depend on this one. A new library renews the linker's cache.
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libtakt_c 0 libtakt-c0 (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBTAKT_C0_PACKAGE_CONTROL_EXTRA
  ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(_takt_solvers "")
if(TARGET PkgConfig::takt_cbc)
  set(_takt_solvers "coinor-libcbc-dev, pkg-config")
endif()
takt_deb(libtakt-dev libdevel "scheduler of LLM serving engines: files for development
takt plans every iteration of an engine that serves large language models:
which requests run, and for how many tokens. This package has the headers,
the static libraries, and the files for CMake and pkg-config."
  takt_development takt_c_development RECOMMENDS "${_takt_solvers}"
  DEPENDS "libtakt-c0 ${_takt_same_version}, libabsl-dev, libfmt-dev, zlib1g-dev")
takt_deb(takt utils "scheduler of LLM serving engines: simulator and planner
takt plans every iteration of an engine that serves large language models:
which requests run, and for how many tokens. The tool replays workloads under
several policies, compares the policies, and plans clusters." takt_tool)
takt_deb(takt-doc doc "scheduler of LLM serving engines: documentation
takt plans every iteration of an engine that serves large language models:
which requests run, and for how many tokens. This package has the pages of
documentation and example programs." takt_documentation)
set(CPACK_DEBIAN_TAKT_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_TAKT_DOC_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_LIBTAKT_DEV_PACKAGE_SHLIBDEPS OFF)
include(CPack)
