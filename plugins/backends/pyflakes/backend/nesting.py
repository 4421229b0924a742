"""Measures the depth of expressions before Python parses them.

Python's parser makes a tree of a chain such as `a + b + c` or `a.b.c` that is as deep as the chain
is long, and walks it with recursive calls. In a component these use a stack whose limit Python does
not know: a chain of many thousands would trap. Python itself limits all other kinds of nesting.
"""

import tokenize

LIMIT = 2000

# A shorter text can't contain a chain of that length.
_LEAST = 2 * LIMIT

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_ENDING = frozenset(",;")


def is_too_deep(lines: list[str]) -> bool:
    """Whether an expression may be too deep to be parsed; an upper bound, so it may be wrong."""
    if sum(map(len, lines)) < _LEAST:
        return False
    try:
        return any(depth > LIMIT for depth in _depths(lines))
    except (SyntaxError, tokenize.TokenError):
        # The text before the error was not too deep, and the parser stops here too.
        return False


def _depths(lines: list[str]):
    """The depth after each token: the sum of the lengths of the chains in all open brackets."""
    chains, depth = [0], 0
    for token in tokenize.generate_tokens(iter([*lines, ""]).__next__):
        if token.type == tokenize.NEWLINE:
            chains, depth = [0], 0
        elif token.type != tokenize.OP:
            continue
        elif token.string in _OPENING:
            chains.append(0)
        elif token.string in _ENDING:
            depth -= chains[-1]
            chains[-1] = 0
        else:
            if token.string in _CLOSING and len(chains) > 1:
                depth -= chains.pop()
            chains[-1] += 1
            depth += 1
            yield depth
