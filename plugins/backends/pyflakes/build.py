"""Writes the component: `python build.py INTERFACES OUTPUT`, with requirements.txt installed.

`INTERFACES` is the directory with the project's WIT packages.

No import of WASI stays in it: whatever Python would ask the system for is replaced by a trap, and
the seed of its hashes is the one that the build drew.
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
        # Nothing but what it needs: all that lies on the path of modules ends up in it.
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
