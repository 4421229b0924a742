"""What was ordered."""

from dataclasses import dataclass, field

from shop.pricing import gross


def show_cents(cents):
    """An amount as people read it: 1999 is 19.99."""
    return f"{cents // 100}.{cents % 100}"


@dataclass
class Line:
    article: str
    quantity: int
    price: int


@dataclass
class Order:
    lines: list = field(default_factory=list)

    def add(self, article, quantity, price):
        self.lines.append(Line(article, quantity, price))

    def total(self):
        return show_cents(gross(self.lines))
