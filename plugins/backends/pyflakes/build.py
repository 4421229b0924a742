"""Builds the component: `python build.py INTERFACES OUTPUT`, with requirements.txt installed.

`INTERFACES` is the directory with the project's WIT packages.

The component imports nothing of WASI: every system call of Python is replaced by a trap, and the
seed of its hashes is fixed when the component is built.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = Path(__import__("pyflakes").__file__).parents[1]


def main(interfaces: Path, output: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        wit, sources = Path(temporary, "wit"), Path(temporary, "sources")
        shutil.copytree(interfaces, wit / "deps")
        shutil.copy(HERE / "world.wit", wit)
        # Only the modules that it needs: everything on the module path is included.
        sources.mkdir()
        shutil.copy(HERE / "app.py", sources)
        shutil.copytree(HERE / "backend", sources / "backend", ignore=_compiled)
        shutil.copytree(PACKAGES / "pyflakes", sources / "pyflakes", ignore=_compiled)
        shutil.copy(PACKAGES / "pycodestyle.py", sources)
        program = Path(sys.executable).with_name("componentize-py")
        subprocess.run(
            [program, "-q", "-d", wit, "-w", "scanning-linter", "componentize", "--stub-wasi"]
            + ["-p", sources, "-o", output.resolve(), "app"],
            check=True,
        )


def _compiled(_, names):
    return [name for name in names if name in ("__pycache__", "test", "scripts")]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
