"""How deep an expression is, measured before Python parses it.

Python's parser makes a chain such as `a + b + c` or `a.b.c` a tree as deep as the chain is long, and
walks it with recursive calls. In a component these take a stack that Python knows nothing of: a
chain of many thousands would end the call. All other ways to nest, Python itself keeps within
bounds.
"""

import tokenize

LIMIT = 2000

# A shorter text holds no chain that is longer.
_LEAST = 2 * LIMIT

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_ENDING = frozenset(",;")


def is_too_deep(lines: list[str]) -> bool:
    """Whether some expression is deeper than can be parsed; at worst a guess too high."""
    if sum(map(len, lines)) < _LEAST:
        return False
    try:
        return any(depth > LIMIT for depth in _depths(lines))
    except (SyntaxError, tokenize.TokenError):
        # What came before it was not too deep, and the parser gets no further.
        return False


def _depths(lines: list[str]):
    """The depth after each token: the lengths of the chains in all open brackets."""
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
