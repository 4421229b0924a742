"""The tool `greet`. Does not depend on the host or the bindings, so its tests run anywhere."""


class BlankName(Exception):
    """The name is blank."""


def greet(name: str) -> str:
    name = name.strip()
    if not name:
        raise BlankName("the name is blank; say whom to greet")
    return f"Hello, {name}!"
