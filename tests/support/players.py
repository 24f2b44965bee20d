"""Stateful tools, tiny tasks and scripted players for tests of the environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls

PROMPTING = get_handler("python_calls")
DONE = "I have completed the task."


class Shop:
    """A user's own tool: a till whose content is public state, and ways to fail."""

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        if scenario.get("broken"):
            raise OSError("the till is jammed")
        self.till = scenario.get("till", 0)
        self.log: list[str] = []
        self.stock = {"apple": 3}

    def sell(self, item: str, price: int = 1) -> dict[str, Any]:
        if item not in self.stock:
            return {"error": f"no {item} here"}
        self.till += price
        self.log.append(item)
        return {"till": self.till}

    def look(self) -> str:
        return f"till {self.till}"

    def shout(self, text: str) -> str:
        return text

    def burn(self) -> None:
        raise InfrastructureError("the shop burned down")


def doc(name: str, required: Iterable[str] = (), **properties: str) -> FunctionDoc:
    """Return a function doc whose parameters are given as name=BFCL type."""
    described = {
        key: {"type": kind, "description": f"The {key}."} for key, kind in properties.items()
    }
    return FunctionDoc(
        name, f"To {name}.", {"type": "dict", "properties": described, "required": list(required)}
    )


SHOP_DOCS = (
    doc("sell", ["item"], item="string", price="integer"),
    doc("look"),
    doc("shout", ["text"], text="string"),
    doc("burn"),
)


def user(text: str) -> list[dict[str, Any]]:
    """Return a turn of one user message."""
    return [{"role": "user", "content": text}]


def shop_task(*truth: list[str], task_id: str = "multi_turn_base_0", **fields: Any) -> Task:
    """Return a multi-turn task at the shop, one turn for each list of ground-truth calls."""
    question = [user(f"Request {turn}.") for turn in range(len(truth))]
    defaults: dict[str, Any] = {
        "category": "multi_turn_base",
        "question": question,
        "functions": SHOP_DOCS,
        "ground_truth": list(truth),
        "initial_config": {"Shop": {"till": 10}},
        "involved_classes": ("Shop",),
    }
    return Task(id=task_id, **{**defaults, **fields})


def simple_task(task_id: str = "simple_python_0", **fields: Any) -> Task:
    """Return a single-turn task: an apple is to be sold."""
    defaults: dict[str, Any] = {
        "category": "simple_python",
        "question": [user("Sell an apple.")],
        "functions": SHOP_DOCS[:1],
        "ground_truth": [{"sell": {"item": ["apple"], "price": [1, ""]}}],
    }
    return Task(id=task_id, **{**defaults, **fields})


def shop_env(*tasks: Task, **keywords: Any) -> FunctionCallingEnv:
    """Return an environment over tasks at the shop."""
    return FunctionCallingEnv(tasks=tasks, tools={"Shop": Shop}, **keywords)


def perfect_texts(task: Task) -> list[str]:
    """Return the messages of a perfect model: each turn's calls in one message, then a message
    without calls.
    """
    texts = []
    for calls in oracle_calls(task):
        texts += [PROMPTING.render(calls)] if calls else []
        texts += [DONE] if task.is_multi_turn or not calls else []
    return texts


class Replay:
    """What an episode gave: every step's answer, the return and the last info."""

    def __init__(
        self,
        env: FunctionCallingEnv,
        texts: Iterable[str],
        task_id: str | None = None,
        **reset: Any,
    ) -> None:
        options = {"task_id": task_id} if task_id is not None else None
        self.first = env.reset(options=options, **reset)
        self.steps = []
        for text in texts:
            self.steps.append(env.step(text))
            if self.steps[-1][2] or self.steps[-1][3]:
                break
        self.rewards = [step[1] for step in self.steps]
        self.info = self.steps[-1][4]
        self.ended = self.steps[-1][2] or self.steps[-1][3]

    @property
    def total(self) -> float:
        """The return, added up in order."""
        total = 0.0
        for reward in self.rewards:
            total += reward
        return total

    @property
    def valid(self) -> bool:
        """Whether the episode ended with a valid verdict."""
        return self.ended and self.info["verdict"] is not None and self.info["verdict"].valid
