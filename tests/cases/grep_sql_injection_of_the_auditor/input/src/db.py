def q(c, n):
    c.execute(f"SELECT {n}")
    c.execute("SELECT 1")
    s = "SELECT * FROM t WHERE {x}"
    return "%s" % sql % n % n
