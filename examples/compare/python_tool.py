from fctncalling import FunctionCallingEnv


def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: The first one.
        b: The second one.
    """
    return a * b


env = FunctionCallingEnv(tools=[multiply])  # next to the functions of each task
