"""The component's exports, and access to the files of the workspace."""

import ast
import atexit  # noqa: F401: what the bindings' resources import when they are first used
import io
import sys
import warnings
from collections.abc import Iterator

import pycodestyle
import pyflakes
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import linting, scan, types

from backend import nesting, settings
from backend.bounded import LEFT_OUT, BoundedFindings
from backend.findings import UNREADABLE, Finding, Invalid
from backend.lint import Linter as Both
from backend.paths import inside

NAME = "pyflakes"

# Without stubs, whose style differs and whose forward references pyflakes reports as errors.
GLOBS = ["*.py"]

# The number of bytes that the host reads at once.
BATCH_BYTES = 256 * 1024

# The number of files that the host lists at once.
FILES_PER_LIST = 4096


class Linter(exports.Linter):
    """Implements `cofferdam:backend/linter`."""

    def version(self, name: str) -> str:
        _check_name(name)
        return f"{pyflakes.__version__} (pycodestyle {pycodestyle.__version__})"

    def lint(self, name: str, request: linting.Request) -> linting.Report:
        _check_name(name)
        _prevent_system_calls()
        try:
            return _lint(request)
        except Invalid as error:
            raise Err(types.Error_Invalid(str(error))) from error
        except BaseException as error:
            raise Err(types.Error_Failed(f"{type(error).__name__}: {error}")) from error


def _warm_up() -> None:
    """Uses both linters once while the component is built, so that modules that they import late
    are included."""
    linter = Both(settings.Settings(), [])
    for text in ["import os\nx = f'{1}'  # noqa: F541\n", "é = '''\n'''\n", "def f(:\n", "\xff"]:
        linter.check("example.py", text.encode("latin-1"))


def _check_name(name: str) -> None:
    if name != NAME:
        raise Err(types.Error_Invalid(f"there is no backend '{name}' in this plugin"))


def _prevent_system_calls() -> None:
    """Prevents system calls, which would trap. A late import fails with an ImportError, output is
    dropped, and the names of source files can't be opened, so that Python does not quote lines.
    """
    sys.meta_path.clear()
    sys.stdout = sys.stderr = io.StringIO()
    sys.unraisablehook = lambda _: None
    warnings.simplefilter("ignore")
    # pyflakes makes three calls for each level of a tree; these use only Python's own stack.
    sys.setrecursionlimit(4 * nesting.LIMIT)
    ast.parse.__defaults__ = ("\ud800", "exec")


def _lint(request: linting.Request) -> linting.Report:
    inside(request.root)
    paths = [inside(path) for path in request.paths]
    if not paths:
        raise Invalid("no path is given")
    config = None if request.config is None else inside(request.config)
    found = settings.find(_read, config, paths)
    linter = Both(found, request.select)
    seen: set[str] = set()
    bounded = BoundedFindings()
    for path in paths:
        for file, data in _files(path):
            if file in seen or found.leave_out(file):
                continue
            seen.add(file)
            if data is None:
                bounded.add(file, [Finding(0, 0, UNREADABLE, "it can't be read")])
            else:
                bounded.add(file, linter.check(file, data))
    findings, left_out = bounded.finish()
    return linting.Report(
        findings=[
            *(_finding(path, finding) for path, finding in findings),
            *(_left_out(code, is_warning, count) for (code, is_warning), count in left_out.items()),
        ],
        files_checked=len(seen),
        exit_code=None,
        raw="".join(
            f"{path}:{finding.line}:{finding.column}: {finding.code} {finding.message}\n"
            for path, finding in findings
        ),
    )


def _finding(path: str, finding: Finding) -> linting.Finding:
    end_line, end_column = finding.end or (None, None)
    return linting.Finding(
        path=path,
        line=finding.line,
        column=finding.column,
        end_line=end_line,
        end_column=end_column,
        code=finding.code,
        severity=linting.Severity.WARNING if finding.is_warning else linting.Severity.ERROR,
        message=finding.message,
        url=None,
        fix=None,
    )


def _left_out(code: str, is_warning: bool, count: int) -> linting.Finding:
    return linting.Finding(
        path="",
        line=0,
        column=0,
        end_line=None,
        end_column=None,
        code=code,
        severity=linting.Severity.WARNING if is_warning else linting.Severity.ERROR,
        message=str(count),
        url=LEFT_OUT,
        fix=None,
    )


def _open(path: str) -> scan.Scanner:
    return scan.Scanner.open(
        scan.Query(
            root=path,
            globs=GLOBS,
            exclude_globs=[],
            types=[],
            ignore_files=True,
            hidden=False,
            follow_links=False,
            max_file_size=None,
        )
    )


def _files(path: str) -> Iterator[tuple[str, bytes | None]]:
    """All files below a path with their contents; None for a file that can't be read."""
    try:
        scanner = _open(path)
    except Err as error:
        raise Invalid(error.value.value) from error
    with scanner:
        read: set[str] = set()
        while (batch := scanner.next(BATCH_BYTES)).ids:
            start = 0
            for number, end in zip(batch.ids, batch.ends, strict=True):
                file = scanner.path(number)
                read.add(file)
                yield file, batch.data[start:end]
                start = end
        if scanner.unreadable():
            for first in range(0, scanner.count(), FILES_PER_LIST):
                for file in scanner.files(first, FILES_PER_LIST):
                    if file.path not in read:
                        yield file.path, None


def _read(path: str) -> bytes | None:
    """The contents of a file; None if it does not exist or may not be read."""
    try:
        scanner = _open(path)
    except Err:
        return None
    with scanner:
        batch = scanner.next(BATCH_BYTES)
        if len(batch.ids) != 1 or scanner.path(batch.ids[0]) != path:
            return None
        return batch.data


_warm_up()
