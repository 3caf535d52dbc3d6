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
            built = compiled(folder)
        except Exception as error:  # whatever the absence of a compiler looks like on this platform
            self.app.display_warning(f"Nothing was compiled: {error}. fedspca works without, and takes longer.")
            return
        build_data["artifacts"].append(f"/{FOLDER}/{NAME}")
        if version == "standard":
            build_data["force_include"][str(built)] = f"fedspca/linalg/compiled/{NAME}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"


def compiled(folder: Path) -> Path:
    """Compile all C files of a folder into one library beside them. It is complete, or it is not there."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    options = ["/O2"] if compiler.compiler_type == "msvc" else ["-O3", "-std=c11", "-fPIC", "-fvisibility=hidden"]
    if compiler.compiler_type != "msvc":
        # products and sums are rounded one by one, so that the same machine code gives the same bits everywhere
        options += ["-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"]
    library = folder / NAME
    with tempfile.TemporaryDirectory() as scratch:
        sources = sorted(str(path.relative_to(folder)) for path in folder.glob("*.c"))
        objects = [
            compiler.compile([str(folder / source)], output_dir=scratch, extra_postargs=options)[0]
            for source in sources
        ]
        made = Path(scratch) / NAME
        compiler.link_shared_object(objects, str(made), libraries=[] if sys.platform == "win32" else ["m"])
        aside = library.with_suffix(".new")
        aside.write_bytes(made.read_bytes())
        aside.replace(library)
    return library
