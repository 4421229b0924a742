"""What was ordered."""

from dataclasses import dataclass, field

from shop.pricing import gross
from shop.text import show_cents


@dataclass
class Line:
    article: str
    quantity: int
    price: int


@dataclass
class Order:
    lines: list[Line] = field(default_factory=list)

    def add(self, article, quantity, price):
        self.lines.append(Line(article, quantity, price))

    def total(self):
        return show_cents(gross(self.lines))
