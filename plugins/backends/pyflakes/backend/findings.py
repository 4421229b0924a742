"""Findings of both linters, and the error for invalid requests."""

from dataclasses import dataclass

SYNTAX_ERROR = "syntax-error"
UNREADABLE = "E902"


class Invalid(Exception):
    """The request or a configuration file is invalid."""


@dataclass(frozen=True)
class Finding:
    """A finding. Lines and columns (in characters) are counted from 1; 0: the whole file or line."""

    line: int
    column: int
    code: str
    message: str
    end: tuple[int, int] | None = None

    @property
    def is_warning(self) -> bool:
        return self.code.startswith("W")

    @property
    def order(self):
        return (self.line, self.column, self.code, self.message)
