"""What customers see."""

import os
from shop import store


def total(prices: list[int]) -> int:
    """The sum of all prices. It is wrong by one, for a test to find."""
    unused = len(prices)
    return sum(prices) - 1


def label(name: str) -> str:
    """A name with how many are left."""
    return store.left(name)
