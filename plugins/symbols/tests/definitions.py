"""Prints what Python's own parser finds: one JSON line for each file named on standard input."""

import ast
import json
import sys
import warnings


def definitions(tree):
    """Classes and functions with their qualified names and places."""
    found = []
    pending = [(tree, ())]
    while pending:
        node, names = pending.pop()
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = (*names, child.name)
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                found.append({
                    "name": ".".join(inner),
                    "is_class": isinstance(child, ast.ClassDef),
                    "start_line": first,
                    "line": child.lineno,
                    "end_line": child.end_lineno,
                    "doc": ast.get_docstring(child),
                })
            pending.append((child, inner))
    return found


def main():
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(5000)
    for path in sys.stdin.read().splitlines():
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            found = None
        else:
            found = definitions(tree)
        print(json.dumps({"path": path, "definitions": found}))


main()
