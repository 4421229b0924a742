"""Runs pyflakes; the codes of its messages are those of flake8."""

import ast

from pyflakes.checker import Checker

from .findings import SYNTAX_ERROR, Finding

# https://flake8.pycqa.org/en/latest/user/error-codes.html
CODES = {
    "UnusedImport": "F401",
    "ImportShadowedByLoopVar": "F402",
    "ImportStarUsed": "F403",
    "LateFutureImport": "F404",
    "ImportStarUsage": "F405",
    "ImportStarNotPermitted": "F406",
    "FutureFeatureNotDefined": "F407",
    "PercentFormatInvalidFormat": "F501",
    "PercentFormatExpectedMapping": "F502",
    "PercentFormatExpectedSequence": "F503",
    "PercentFormatExtraNamedArguments": "F504",
    "PercentFormatMissingArgument": "F505",
    "PercentFormatMixedPositionalAndNamed": "F506",
    "PercentFormatPositionalCountMismatch": "F507",
    "PercentFormatStarRequiresSequence": "F508",
    "PercentFormatUnsupportedFormatCharacter": "F509",
    "StringDotFormatInvalidFormat": "F521",
    "StringDotFormatExtraNamedArguments": "F522",
    "StringDotFormatExtraPositionalArguments": "F523",
    "StringDotFormatMissingArgument": "F524",
    "StringDotFormatMixingAutomatic": "F525",
    "FStringMissingPlaceholders": "F541",
    "TStringMissingPlaceholders": "F542",
    "MultiValueRepeatedKeyLiteral": "F601",
    "MultiValueRepeatedKeyVariable": "F602",
    "TooManyExpressionsInStarredAssignment": "F621",
    "TwoStarredExpressions": "F622",
    "AssertTuple": "F631",
    "IsLiteral": "F632",
    "InvalidPrintSyntax": "F633",
    "IfTuple": "F634",
    "BreakOutsideLoop": "F701",
    "ContinueOutsideLoop": "F702",
    "YieldOutsideFunction": "F704",
    "ReturnOutsideFunction": "F706",
    "DefaultExceptNotLast": "F707",
    "LazyImportNotAtModuleScope": "F708",
    "LazyImportStarNotPermitted": "F709",
    "DoctestSyntaxError": "F721",
    "ForwardAnnotationSyntaxError": "F722",
    "RedefinedWhileUnused": "F811",
    "UndefinedName": "F821",
    "UndefinedExport": "F822",
    "UndefinedLocal": "F823",
    "UnusedIndirectAssignment": "F824",
    "DuplicateArgument": "F831",
    "UnusedVariable": "F841",
    "UnusedAnnotation": "F842",
    "EagerUseOfLazyImport": "F851",
    "RaiseNotImplemented": "F901",
}

# The code for a new message without a code, as in flake8.
OTHER = "F999"

TOO_DEEP = Finding(0, 0, SYNTAX_ERROR, "nested too deeply to be checked")


def parse(lines: list[str]) -> ast.Module | Finding:
    """Parses a file; returns the syntax tree or the finding for a syntax error."""
    try:
        return ast.parse("".join(lines))
    except SyntaxError as error:
        return _syntax_error(error, lines)
    except ValueError as error:
        return Finding(0, 0, SYNTAX_ERROR, str(error))
    except (RecursionError, MemoryError):
        return TOO_DEEP


def check(tree: ast.Module, path: str, lines: list[str]) -> list[Finding]:
    return [
        Finding(
            message.lineno,
            _column(lines, message.lineno, message.col),
            CODES.get(type(message).__name__, OTHER),
            message.message % message.message_args,
        )
        for message in Checker(tree, filename=path).messages
    ]


def _column(lines: list[str], line: int, offset: int) -> int:
    """Converts an offset in UTF-8 bytes, as in syntax trees, to a column in characters."""
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if text.isascii():
        return offset + 1
    return len(text.encode()[:offset].decode(errors="ignore")) + 1


def _syntax_error(error: SyntaxError, lines: list[str]) -> Finding:
    line, column = error.lineno or 0, max(error.offset or 0, 0)
    if 0 < line <= len(lines):
        column = min(column, len(lines[line - 1].rstrip("\n")) + 1)
    end = (error.end_lineno or 0, error.end_offset or 0)
    return Finding(line, column, SYNTAX_ERROR, error.msg, end if end > (line, column) else None)
