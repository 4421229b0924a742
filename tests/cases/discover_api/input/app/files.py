def get(name: str) -> bytes:
    """Gets it."""

def _hidden(): ...
