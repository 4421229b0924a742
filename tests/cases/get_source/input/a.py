class A:
    @cached(
        1)
    def f(self):
        """Does it."""
        return 1

    x = 1
