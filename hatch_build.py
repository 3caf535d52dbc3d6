"""Compile the innermost loops where there is a C compiler. Where there is none, numpy does their work."""

import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/fedspca/linalg/compiled")
NAME = "_kernels.dll" if sys.platform == "win32" else "_kernels.so"


class Kernels(BuildHookInterface[Any]):
    """One shared library from all C files of a folder. It needs no header of Python, so it serves every version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform."""
        folder = Path(self.root) / FOLDER
        try:
            compile_all(folder)
        except Exception as error:  # whatever the absence of a compiler looks like on this platform
            (folder / NAME).unlink(missing_ok=True)  # of older sources
            self.app.display_warning(f"Nothing was compiled: {error}. fedspca works without, and takes longer.")
            return
        build_data["artifacts"].append(f"/{FOLDER}/{NAME}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"


def compile_all(folder: Path) -> None:
    """Compile all C files of a folder into one library beside them. It is complete, or it is not there."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    # products and sums are rounded one by one, so that compilers do not differ in the last bit
    exact = ["-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
    options = ["/O2"] if compiler.compiler_type == "msvc" else ["-O3", "-std=c11", "-fPIC", "-Wall", "-Wextra", *exact]
    sources = sorted(str(path) for path in folder.glob("*.c"))
    with tempfile.TemporaryDirectory() as scratch:
        objects = compiler.compile(sources, output_dir=scratch, extra_postargs=options)
        made, aside = Path(scratch) / NAME, folder / f"{NAME}.new"
        compiler.link_shared_object(objects, str(made), libraries=[] if sys.platform == "win32" else ["m"])
        aside.write_bytes(made.read_bytes())
        aside.replace(folder / NAME)
