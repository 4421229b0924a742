"""Runs pycodestyle and collects its findings."""

from dataclasses import dataclass

import pycodestyle

from .findings import Finding

# Settings are read only from the workspace, and findings are suppressed by `noqa`, with codes.
pycodestyle.USER_CONFIG = None
pycodestyle.noqa = lambda _: None


@dataclass(frozen=True)
class Style:
    """The settings that affect the findings; None: pycodestyle's default."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_line_length: int | None = None
    max_doc_length: int | None = None
    indent_size: int | None = None
    hang_closing: bool | None = None


class _Report(pycodestyle.BaseReport):
    """Collects findings instead of printing them."""

    def init_file(self, filename, lines, expected, line_offset):
        super().init_file(filename, lines, expected, line_offset)
        self.findings: list[Finding] = []

    def error(self, line_number, offset, text, check):
        code = super().error(line_number, offset, text, check)
        if code:
            self.findings.append(Finding(line_number, offset + 1, code, text[5:]))
        return code


class Checker:
    """pycodestyle with the settings for all files of a request."""

    def __init__(self, style: Style):
        chosen = {name: value for name, value in vars(style).items() if value not in (None, ())}
        self._options = pycodestyle.StyleGuide(paths=[], reporter=_Report, **chosen).options

    def check(self, path: str, lines: list[str]) -> list[Finding]:
        report = self._options.report
        # A copy, since pycodestyle removes a byte order mark from the list that it gets.
        pycodestyle.Checker(path, list(lines), self._options, report).check_all()
        return report.findings
