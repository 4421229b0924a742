"""How things are shown."""


def show_cents(cents):
    """An amount as people read it: 1999 is 19.99."""
    return f"{cents // 100}.{cents % 100:02}"
