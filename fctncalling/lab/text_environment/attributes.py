"""Tools under the names of TRL's hub examples."""

from __future__ import annotations

from collections.abc import Callable

from fctncalling.envs.tool_text.tools import search_tool
from fctncalling.envs.tools.box.calculator import calculate
from fctncalling.envs.tools.python_executor import PythonExecutor

TextTool = Callable[[str], str]


def load_tool(name: str) -> TextTool:
    """Return our tool for a hub name such as "ybelkada/simple-calculator", of any owner.

    Nothing is downloaded. Raises LookupError for names without a counterpart here, naming those
    that have one.
    """
    short = name.rpartition("/")[2]
    if short not in _TOOLS:
        raise LookupError(f'no tool stands for "{name}" here: there are {", ".join(_TOOLS)}')
    return _TOOLS[short]()


def _python() -> TextTool:
    executor = PythonExecutor()

    def python_interpreter(code: str) -> str:
        """Run Python code, confined, and return what it prints."""
        return executor.run(code).text

    return python_interpreter


_TOOLS: dict[str, Callable[[], TextTool]] = {
    "simple-calculator": lambda: calculate,
    "python-interpreter": _python,
    "pyserini-wikipedia-kilt-doc": lambda: search_tool().function,
}
