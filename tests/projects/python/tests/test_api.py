import pytest

from shop import counter, store


def test_api_left():
    assert store.left("café") == 3


def test_api_total():
    assert counter.total([60, 40]) == 100


@pytest.mark.parametrize("name", ["café", "tea"])
def test_label(name):
    assert counter.label(name) is not None


@pytest.mark.skip(reason="there is no database here")
def test_database():
    raise AssertionError
