"""What both linters find, and what is no finding but the caller's mistake."""

from dataclasses import dataclass

SYNTAX_ERROR = "syntax-error"
UNREADABLE = "E902"


class Invalid(Exception):
    """The request or a configuration file is wrong."""


@dataclass(frozen=True)
class Finding:
    """Lines and columns count from 1, columns in characters; 0 means the whole file or line."""

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
