import os


@traced
async def get_file(path: str, *, mode: str = "r") -> bytes:
    """Reads a file.

    In full.
    """
    return b""


class Cache:
    def get_file(self): ...
