"""What pycodestyle finds."""

from dataclasses import dataclass

import pycodestyle

from .findings import Finding

# Settings come from the workspace alone, and suppression is `noqa`'s, with codes.
pycodestyle.USER_CONFIG = None
pycodestyle.noqa = lambda _: None


@dataclass(frozen=True)
class Style:
    """The part of pycodestyle's settings that decides what it finds; none: its default."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_line_length: int | None = None
    max_doc_length: int | None = None
    indent_size: int | None = None
    hang_closing: bool | None = None


class _Report(pycodestyle.BaseReport):
    """Keeps findings rather than printing them."""

    def init_file(self, filename, lines, expected, line_offset):
        super().init_file(filename, lines, expected, line_offset)
        self.findings: list[Finding] = []

    def error(self, line_number, offset, text, check):
        code = super().error(line_number, offset, text, check)
        if code:
            self.findings.append(Finding(line_number, offset + 1, code, text[5:]))
        return code


class Checker:
    """pycodestyle with settings that stay the same for many files."""

    def __init__(self, style: Style):
        chosen = {name: value for name, value in vars(style).items() if value not in (None, ())}
        self._options = pycodestyle.StyleGuide(paths=[], reporter=_Report, **chosen).options

    def check(self, path: str, lines: list[str]) -> list[Finding]:
        report = self._options.report
        # Without the copy it would remove a byte order mark, if one were there, from ours.
        pycodestyle.Checker(path, list(lines), self._options, report).check_all()
        return report.findings
