"""smolagents' CodeAgent executes its code in our confined executor.

  python3.11 -m venv /tmp/smolagents
  /tmp/smolagents/bin/pip install smolagents==1.26.0
  /tmp/smolagents/bin/pip install .
  /tmp/smolagents/bin/python examples/integrations/smolagents_agent.py

The model here is a script of three steps: it sets a variable, tries to read a file (and fails), and
answers with the variable. Any model of smolagents takes its place.
"""

from __future__ import annotations

from typing import Any

from smolagents import ChatMessage, CodeAgent, Model

from fctncalling.lab.integrations.smolagents import ConfinedExecutor

STEPS = (
    "import math\nways = math.comb(20, 10)\nprint(ways)",
    "print(open('/etc/passwd').read())",
    "final_answer(ways)",
)


class Script(Model):
    """Model that returns the next scripted step."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = iter(STEPS)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        """Return the next step as a message."""
        return ChatMessage(role="assistant", content=f"<code>\n{next(self._steps)}\n</code>")


def main() -> None:
    """Run the agent; print its answer and the content of the file."""
    executor = ConfinedExecutor(timeout_s=5, memory_mb=256)
    agent = CodeAgent(tools=[], model=Script(), executor=executor, verbosity_level=0)
    try:
        answer = agent.run("In how many ways can 10 of 20 be chosen?")
    finally:
        executor.cleanup()
    steps = [step for step in agent.memory.steps if hasattr(step, "observations")]
    print("answer:", answer)
    print("file:", steps[1].error.message.splitlines()[-1])


if __name__ == "__main__":
    main()
