"""Conan 2 recipe: the libraries of takt in C++, from this clone and with Debian's libraries.
docs/start/package_managers.md has the command."""
import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt


class Takt(ConanFile):
    name = "takt"
    description = "Decides what an LLM serving engine runs next"
    license = "Apache-2.0"
    package_type = "static-library"
    settings = "os", "compiler", "build_type", "arch"

    @property
    def _tree(self) -> pathlib.Path:
        return pathlib.Path(self.recipe_folder).parent.parent

    def set_version(self) -> None:
        header = (self._tree / "include/takt/version.h").read_text()
        self.version = re.search(r'TAKT_VERSION "([^"]+)"', header)[1]

    def export_sources(self) -> None:
        for pattern in ("CMakeLists.txt", "CMakePresets.json", "*.md", "LICENSE", "cmake/*", "docs/*", "examples/*",
                        "include/*", "src/*"):
            copy(self, pattern, self._tree, self.export_sources_folder, excludes="build/*")

    def layout(self) -> None:
        cmake_layout(self)

    def system_requirements(self) -> None:
        Apt(self).install(["libabsl-dev", "libeigen3-dev", "libfmt-dev", "nlohmann-json3-dev", "zlib1g-dev"])

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        for part in ("TOOL", "C", "TESTS", "EXAMPLES", "INTEGRATIONS", "SOLVERS"):
            toolchain.cache_variables["TAKT_" + part] = False
        toolchain.cache_variables["TAKT_UNITY"] = True
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        CMake(self).install(component="takt_development")
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder, "licenses"))

    def package_info(self) -> None:
        # takt's own CMake files have the targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/takt"]
        self.cpp_info.libs = ["takt_systems", "takt_planning", "takt_sim", "takt_learning", "takt_rivals", "takt"]
