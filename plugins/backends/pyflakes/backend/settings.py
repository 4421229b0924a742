"""Reads the section `[pycodestyle]` of setup.cfg and tox.ini, found as pycodestyle finds them.

pyflakes has no settings. Settings that only affect pycodestyle's output format are ignored.
"""

import configparser
import fnmatch
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field

from .findings import Invalid
from .style import Style

NAMES = ("setup.cfg", "tox.ini")
_SECTIONS = ("pycodestyle", "pep8")
_LISTS = ("select", "ignore")
_NUMBERS = ("max_line_length", "max_doc_length", "indent_size")
_EXCLUDED = (".svn", "CVS", ".bzr", ".hg", ".git", "__pycache__", ".tox")

Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Settings:
    style: Style = field(default_factory=Style)
    exclude: tuple[str, ...] = _EXCLUDED

    def leave_out(self, path: str) -> bool:
        """Whether a file, or a directory above it, is excluded by its name or its path."""
        above = "/" + path
        while above != "/":
            name = posixpath.basename(above)
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.exclude):
                return True
            if any(fnmatch.fnmatchcase(above, pattern) for pattern in self.exclude):
                return True
            above = posixpath.dirname(above)
        return False


def find(read: Read, config: str | None, paths: list[str]) -> Settings:
    """The settings in `config`, or in the nearest common parent of all paths that has some."""
    if config is not None:
        data = read(config)
        if data is None:
            raise Invalid(f"there is no configuration file {config}")
        return _settings({config: data}, posixpath.dirname(config))
    directory = posixpath.commonpath(paths)
    while True:
        files = {name: read(name) for name in (posixpath.join(directory, n) for n in NAMES)}
        found = {name: data for name, data in files.items() if data is not None}
        if found or not directory:
            return _settings(found, directory)
        directory = posixpath.dirname(directory)


def _settings(files: dict[str, bytes], directory: str) -> Settings:
    parser = configparser.RawConfigParser()
    for name, data in files.items():
        try:
            parser.read_string(data.decode("utf-8-sig"), name)
        except UnicodeDecodeError as error:
            raise Invalid(f"{name}: it is no UTF-8 at byte {error.start}") from error
        except configparser.Error as error:
            raise Invalid(f"{name}: {' '.join(str(error).split())}") from error
    section = next((name for name in _SECTIONS if parser.has_section(name)), None)
    if section is None:
        return Settings()
    where = f"{', '.join(files)}: [{section}]"
    values = {name.replace("-", "_"): value for name, value in parser.items(section)}
    style: dict[str, object] = {name: _words(values[name]) for name in _LISTS if name in values}
    for name in _NUMBERS:
        if name in values:
            style[name] = _number(where, name, values[name])
    if "hang_closing" in values:
        style["hang_closing"] = _boolean(where, "hang_closing", values["hang_closing"])
    exclude = _words(values["exclude"]) if "exclude" in values else _EXCLUDED
    return Settings(Style(**style), tuple(_from_root(pattern, directory) for pattern in exclude))


def _words(value: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in value.split(",")) if word)


def _number(where: str, name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise Invalid(f"{where}: {name.replace('_', '-')} has to be a number, not '{value}'") from None


def _boolean(where: str, name: str, value: str) -> bool:
    states = configparser.RawConfigParser.BOOLEAN_STATES
    if value.lower() not in states:
        raise Invalid(f"{where}: {name.replace('_', '-')} has to be true or false, not '{value}'")
    return states[value.lower()]


def _from_root(pattern: str, directory: str) -> str:
    """Resolves a pattern: one with a `/` is relative to its file's directory."""
    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        return pattern
    return posixpath.normpath(posixpath.join("/", directory, pattern))
