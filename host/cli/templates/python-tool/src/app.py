"""What the host calls: JSON in, JSON or an error out. The tool itself is in `greet.py`.

What a tool needs is imported here, at the top: after the build there are no files to import from.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import CallContext, ErrorKind, ToolError

from greet import BlankName, greet


class Tools(exports.Tools):
    """`cofferdam:tool/tools`."""

    def call(self, name: str, args: str, ctx: CallContext) -> str:
        """The host has checked `args` against the tool's input schema."""
        if name != "greet":
            raise _error(ErrorKind.NOT_FOUND, "UnknownTool", f"no tool '{name}'")
        try:
            return json.dumps({"text": greet(json.loads(args)["name"])})
        except BlankName as error:
            raise _error(ErrorKind.INVALID_ARGS, "BlankName", str(error)) from error


def _error(kind: ErrorKind, code: str, message: str) -> Err:
    """`code` is a stable name that agents branch on; the message says what would be right."""
    return Err(ToolError(kind, code, message, None))
