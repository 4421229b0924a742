"""Runs pytest and prints the result of each test as a line of JSON.

Arguments: this text, then those of pytest. The results go to standard output; everything that
pytest and the tests print goes to standard error, so that it is not mistaken for a result.
"""

import glob
import importlib.util
import json
import os
import shutil
import sys

# The maximum sizes of a message and of a stack trace, in characters.
MAX_MESSAGE, MAX_STACK = 8_000, 32_000


def is_readable(path):
    """Whether a file can be read here: a sandbox may let it exist and still not open it."""
    try:
        with open(path, "rb"):
            return True
    except OSError:
        return False


def environments():
    """The environments that may have pytest: the project's own, then that of the account."""
    yield from (".venv", "venv")
    active = os.environ.get("VIRTUAL_ENV")
    if active:
        yield active


def interpreter():
    """Finds a Python interpreter that has pytest. Returns it, and what was found elsewhere."""
    found = []
    for environment in environments():
        if not os.path.isdir(environment):
            continue
        python = os.path.abspath(os.path.join(environment, "bin", "python"))
        packages = os.path.join(environment, "lib", "python3*", "site-packages", "pytest")
        if not glob.glob(packages):
            found.append(f"{environment} has no package pytest")
        elif not is_readable(python):
            target = os.path.realpath(python)
            found.append(
                f"{environment} has pytest, but its interpreter {target} does not exist or is in "
                "none of the directories that programs can read"
            )
        else:
            return python, found
    if importlib.util.find_spec("pytest"):
        return sys.executable, found
    found.append(f"{sys.executable} has no module pytest")
    program = shutil.which("pytest")
    if program is None:
        found.append("there is no program pytest")
        return None, found
    with open(program, "rb") as script:
        first = os.fsdecode(script.readline()).strip()
    python = first[2:].strip().split(" ")[0] if first.startswith("#!") else ""
    if is_readable(python):
        return python, found
    found.append(f"the interpreter of {program} can't be read: {first[:200]}")
    return None, found


def cut(text, most):
    return text if len(text) <= most else f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"


class Reporter:
    def __init__(self, stream):
        self.stream = stream

    def say(self, **event):
        self.stream.write(json.dumps(event) + "\n")
        self.stream.flush()

    def pytest_runtest_logstart(self, nodeid):
        self.say(event="start", id=nodeid)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            self.say(
                event="report",
                id=report.nodeid,
                when=report.when,
                outcome=report.outcome,
                duration=report.duration,
                **self.why(report),
            )
        if report.when == "teardown":
            self.say(event="end", id=report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.say(event="collect", id=report.nodeid, **self.why(report))

    def pytest_internalerror(self, excrepr):
        self.say(event="collect", id="", message="pytest failed", stack=cut(str(excrepr), MAX_STACK))

    @staticmethod
    def why(report):
        if report.passed:
            return {}
        if getattr(report, "wasxfail", None) is not None:
            return {"message": cut(f"expected to fail: {report.wasxfail}", MAX_MESSAGE)}
        if isinstance(report.longrepr, tuple):  # A skip: path, line, reason.
            return {"message": cut(str(report.longrepr[2]), MAX_MESSAGE)}
        crash = getattr(report.longrepr, "reprcrash", None)
        text = report.longreprtext
        lines = [line for line in text.splitlines() if line.strip()]
        # Without a place, the last line has the message: `E   ImportError: ...`.
        message = crash.message if crash else (lines or [""])[-1].replace("E   ", "", 1)
        return {"message": cut(message, MAX_MESSAGE), "stack": cut(text, MAX_STACK)}


def main():
    source, arguments = sys.argv[1], sys.argv[2:]
    if sys.path and sys.path[0] == "":
        del sys.path[0]  # The program pytest does not look in the working directory either.
    python, found = interpreter()
    if python is None:
        print(json.dumps({"event": "missing", "id": sys.executable, "message": "; ".join(found)}))
        return 0
    if python != sys.executable:
        sys.stdout.flush()
        os.execv(python, [python, "-c", "import sys; exec(sys.argv[1])", source, *arguments])
    import pytest

    sys.argv = ["pytest", *arguments]
    if "--version" in arguments:
        print(pytest.__version__)
        return 0
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return int(pytest.main(arguments, plugins=[Reporter(results)]))


sys.exit(main())
