"""Lints one file: converts its bytes to findings."""

from . import flakes, source
from .findings import SYNTAX_ERROR, UNREADABLE, Finding, Invalid
from .nesting import is_too_deep
from .noqa import Suppressions
from .settings import Settings
from .style import Checker, Style

# Reported with any selection: without them, a broken file would look clean.
_ALWAYS = (SYNTAX_ERROR, UNREADABLE)


class Linter:
    """Both linters, with the settings for all files of a request."""

    def __init__(self, settings: Settings, select: list[str]):
        for code in select:
            if not code.strip():
                raise Invalid("an empty code is selected")
        self._select = tuple(select)
        # Selected codes are reported even if the workspace ignores them.
        styles = settings.style if not select else _with_select(settings.style, self._select)
        self._style = Checker(styles)

    def check(self, path: str, data: bytes) -> list[Finding]:
        lines = source.read(data)
        if isinstance(lines, Finding):
            return [lines]
        if is_too_deep(lines):
            return [flakes.TOO_DEEP]
        tree = flakes.parse(lines)
        if isinstance(tree, Finding):
            return [tree]
        try:
            found = flakes.check(tree, path, lines)
        except RecursionError:
            return [flakes.TOO_DEEP]
        found += self._style.check(path, lines)
        suppressed = Suppressions(lines)
        shown = (finding for finding in found if self._is_selected(finding.code))
        return sorted(
            (finding for finding in shown if not suppressed.cover(finding.line, finding.code)),
            key=lambda finding: finding.order,
        )

    def _is_selected(self, code: str) -> bool:
        return not self._select or code in _ALWAYS or code.startswith(self._select)


def _with_select(style: Style, select: tuple[str, ...]) -> Style:
    return Style(**{**vars(style), "select": select, "ignore": ()})
