"""The tool `greet`. Knows neither the host nor the bindings, so that it is tested anywhere."""


class BlankName(Exception):
    """There is nobody to greet."""


def greet(name: str) -> str:
    name = name.strip()
    if not name:
        raise BlankName("the name is blank; say whom to greet")
    return f"Hello, {name}!"
