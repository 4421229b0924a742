"""An app."""
from .files import get
__all__ = ["get", "LIMIT"]
LIMIT: int = 3
