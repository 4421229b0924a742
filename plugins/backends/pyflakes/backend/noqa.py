"""Comments that suppress findings, by the rules of flake8.

`# noqa` applies to its line, `# noqa: F401, E5` to codes with these prefixes in its line, and a
line with only `# flake8: noqa` (with or without codes) to the whole file. A string or a statement
that spans several lines counts as one line.
"""

import re
import tokenize
from collections.abc import Iterator

_CODES = r"(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?"
_LINE = re.compile(r"#\s*noqa\b" + _CODES, re.IGNORECASE)
_FILE = re.compile(r"#\s*flake8\s*[:=]\s*noqa\b" + _CODES + r"\s*$", re.IGNORECASE)
_EVERYTHING = ("",)


class Suppressions:
    """The codes that the comments of a file suppress, by line."""

    def __init__(self, lines: list[str]):
        self._of_file: tuple[str, ...] = ()
        self._of_line: dict[int, tuple[str, ...]] = {}
        if not any("noqa" in line.lower() for line in lines):
            return
        for first, last, comment in _comments(lines):
            if match := _FILE.match(comment):
                self._of_file += _prefixes(match)
            elif match := _LINE.search(comment):
                for line in range(first, last + 1):
                    self._of_line[line] = self._of_line.get(line, ()) + _prefixes(match)

    def cover(self, line: int, code: str) -> bool:
        """Whether a finding with this code in this line is suppressed."""
        return code.startswith(self._of_file + self._of_line.get(line, ()))


def _prefixes(match: re.Match[str]) -> tuple[str, ...]:
    codes = match["codes"]
    return tuple(re.split(r"[,\s]+", codes.upper())) if codes else _EVERYTHING


def _comments(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Each comment with the first and the last line that it applies to."""
    first, last, comments = None, 0, []
    try:
        for token in tokenize.generate_tokens(iter([*lines, ""]).__next__):
            if token.type in (tokenize.DEDENT, tokenize.ENDMARKER):
                continue
            first = first or token.start[0]
            last = max(last, token.end[0])
            if token.type == tokenize.COMMENT:
                comments.append(token.string)
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                # Some tokens end at the start of the next line.
                for comment in comments:
                    yield first, max(first, token.start[0]), comment
                first, last, comments = None, 0, []
    except (SyntaxError, tokenize.TokenError):
        # A text that can't be split into tokens has a syntax error, which is reported elsewhere.
        return
