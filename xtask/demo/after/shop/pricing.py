"""What an order costs, in cents."""

TAX_PERCENT = 19


def net(lines):
    """The sum of all lines, before tax."""
    return sum(line.quantity * line.price for line in lines)


def gross(lines):
    """The sum of all lines with tax, rounded down."""
    return net(lines) * (100 + TAX_PERCENT) // 100
