def old_total(lines):
    return sum(line.price for line in lines)
