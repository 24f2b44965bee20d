"""smolagents (tested with 1.26): code of a CodeAgent runs in our confined executor.

`CodeAgent(tools=[], model=model, executor=ConfinedExecutor())`. The code has no files, no network
and no processes; variables live as long as the agent, or until a step is stopped (by its time-out,
say), which the agent is told. Tools would run outside of the confinement, so only `final_answer` is
taken.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from smolagents.local_python_executor import CodeOutput, PythonExecutor

from fctncalling.envs.tools import python_executor
from fctncalling.envs.tools.python_executor.session import LOST

GONE = "The variables of all steps so far are gone."
_OFFERED = "final_answer"
_DEFINITION = """
def final_answer(answer=None, *more):
    import json
    print({mark!r} + json.dumps(answer, default=repr))
    raise SystemExit(0)
"""


class CodeError(Exception):
    """Error of the agent's code; the message is for the agent."""


class ConfinedExecutor(PythonExecutor):
    """smolagents' executor interface over a session of a confined Python executor.

    `keywords` are those of `PythonExecutor` (timeout_s, memory_mb, allowed_modules, ...).
    """

    def __init__(self, **keywords: Any) -> None:
        self._executor = python_executor.PythonExecutor(**keywords)
        self._session = self._executor.session()
        self._mark = secrets.token_hex(16)  # the code cannot forge a final answer by printing
        self._given: dict[str, str] = {}  # name -> JSON
        self._begins_anew = True

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        """Accept `final_answer`; raise ValueError for others, which confined code cannot call."""
        if others := sorted(set(tools) - {_OFFERED}):
            raise ValueError(
                f"tools {', '.join(others)}: confined code cannot call tools of this process; "
                "give them to a ToolCallingAgent, or write them as code of the agent."
            )

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Assign variables in the session; raise ValueError for values that JSON lacks."""
        for name, value in variables.items():
            try:
                text = json.dumps(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"variable {name}: a {type(value).__name__} cannot enter confined code: "
                    "expected what JSON has."
                ) from None
            self._given[name] = text
            self._run(_assignment(name, text))

    def __call__(self, code_action: str) -> CodeOutput:
        """Run code; raise CodeError, with its traceback's end, if it fails."""
        logs, marked, answer = self._run(code_action).partition(self._mark)
        if not marked:
            return CodeOutput(output=None, logs=logs, is_final_answer=False)
        value = json.loads(answer.partition("\n")[0])
        return CodeOutput(output=value, logs=logs, is_final_answer=True)

    def cleanup(self) -> None:
        """End the executor's processes."""
        self._session.close()
        self._executor.close()

    def _run(self, code: str) -> str:
        if self._begins_anew:
            assignments = [_assignment(name, text) for name, text in self._given.items()]
            self._session.run("\n".join([_DEFINITION.format(mark=self._mark), *assignments]))
        result = self._session.run(code)
        self._begins_anew = LOST in result.reason
        gone = GONE if self._begins_anew else ""
        if self._mark in result.stdout:
            return result.stdout
        if result.status == "ok":
            return "\n".join(filter(None, (result.stdout, gone)))
        why = result.stderr or f"the code was stopped: {result.status}"
        raise CodeError("\n".join(filter(None, (why, gone))))


def _assignment(name: str, text: str) -> str:
    return f"import json\n{name} = json.loads({text!r})"
