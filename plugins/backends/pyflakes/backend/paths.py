"""Resolves paths of requests, which are relative to the workspace and inside it."""

import posixpath

from .findings import Invalid


def inside(path: str) -> str:
    """Normalizes a path; the workspace itself is an empty string."""
    if "\0" in path:
        raise Invalid(f"the path {path!r} holds a NUL character")
    short = posixpath.normpath(path or ".")
    if short.startswith("/") or short == ".." or short.startswith("../"):
        raise Invalid(f"the path '{path}' is outside of the workspace")
    return "" if short == "." else short
