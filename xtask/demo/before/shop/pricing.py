"""What an order costs, in cents."""

TAX_PERCENT = 19


def net(lines):
    """The sum of all lines, before tax."""
    total = 0
    for line in lines:
        total += line.quantity * line.price
    return total


def gross(lines):
    """The sum of all lines with tax, rounded down."""
    return net(lines) * 119 // 100
