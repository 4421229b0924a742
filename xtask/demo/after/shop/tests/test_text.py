from shop.text import show_cents


def test_cents_have_two_digits():
    assert show_cents(1905) == "19.05"
