"""Decodes a file as Python decodes source files."""

import codecs
import io
import tokenize

from .findings import SYNTAX_ERROR, UNREADABLE, Finding

# Python imports a codec's module when it is first used, which a running component can't do. These
# are imported while the component is built.
ENCODINGS = [
    "ascii", "utf_8", "utf_8_sig", "latin_1", "cp1250", "cp1251", "cp1252", "cp437",
    "iso8859_2", "iso8859_5", "iso8859_7", "iso8859_15", "koi8_r", "koi8_u", "mac_roman",
]  # fmt: skip

for _encoding in ENCODINGS:
    codecs.lookup(_encoding)


def read(data: bytes) -> list[str] | Finding:
    """The lines, each with `\\n` as its line end; or the finding for an undecodable file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        return _not_utf8(data) or Finding(1, 0, SYNTAX_ERROR, str(error.msg))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        return _undecodable(error)
    return io.StringIO(text, newline=None).readlines()


def _not_utf8(data: bytes) -> Finding | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _undecodable(error)
    return None


def _undecodable(error: UnicodeDecodeError) -> Finding:
    line = error.object.count(b"\n", 0, error.start) + 1
    message = f"byte {error.start} can't be decoded as {error.encoding}: {error.reason}"
    return Finding(line, 0, UNREADABLE, message)
