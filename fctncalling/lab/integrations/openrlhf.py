"""OpenRLHF (tested with 0.11): tasks as an agent, for `--train.agent_func_path`.

A file of yours has two lines: `AgentInstance = agent_instance(load_tasks(...), tokenizer)` and
`class AgentExecutor(MultiTurnAgentExecutor)` over it, as OpenRLHF's examples have. Rows of the
training set are `dataset_rows(tasks, tokenizer)`: the prompt as text, the task's id as label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from openrlhf.utils.agent import AgentInstanceBase

from fctncalling.data.types import Message, Task
from fctncalling.lab.dialogue import Dialogue, opening

ANSWER_FORM = "prompting"  # OpenRLHF passes texts: schemas are in the prompt, calls in the answer


def dataset_rows(tasks: Sequence[Task], tokenizer: Any) -> list[dict[str, str]]:
    """Return {"prompt": text, "label": task id} of each task."""
    return [
        {"prompt": _rendered(tokenizer, opening(task, ANSWER_FORM).messages), "label": task.id}
        for task in tasks
    ]


def agent_instance(
    tasks: Sequence[Task], tokenizer: Any, **keywords: Any
) -> type[AgentInstanceBase]:
    """Make the class of agent instances that play these tasks.

    Keywords are those of FunctionCallingEnv.
    """
    by_id = {task.id: task for task in tasks}

    class AgentInstance(AgentInstanceBase):
        """Episode of the task with the label as its id."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.dialogue: Dialogue | None = None

        async def reset(self, states: dict[str, Any], **_: Any) -> dict[str, Any]:
            self.dialogue = Dialogue(by_id[states["label"]], form=ANSWER_FORM, **keywords)
            self.dialogue.open()
            return {**states, "observation": _rendered(tokenizer, self.dialogue.messages)}

        async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
            assert self.dialogue is not None
            before = self.dialogue.messages
            action, reward = state_dict["action_text"], self.dialogue.reward
            content = action.removesuffix(tokenizer.eos_token or "")
            answers = self.dialogue.reply(content)
            verdict = self.dialogue.verdict  # raises where the tools failed: never a reward of 0
            feedback = "" if verdict else _feedback(tokenizer, before, action, content, answers)
            return {
                "rewards": torch.tensor(self.dialogue.reward - reward),
                "scores": torch.tensor(self.dialogue.reward),
                "environment_feedback": feedback,
                "done": self.dialogue.done,
                "sampling_params": state_dict.get("sampling_params"),
                "extra_logs": {"valid": torch.tensor(float(bool(verdict and verdict.valid)))},
            }

    return AgentInstance


def _rendered(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> str:
    return str(
        tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    )


def _feedback(
    tokenizer: Any, before: Sequence[Message], action: str, content: str, answers: Sequence[Message]
) -> str:
    """Return the text between an action and the next.

    Its end, the answers, the opening of a message. ValueError for a template that rewrites earlier
    messages.
    """
    head = _rendered(tokenizer, before) + content
    message = {"role": "assistant", "content": content}
    whole = _rendered(tokenizer, [*before, message, *answers])
    if not whole.startswith(head):
        raise ValueError(
            "the chat template rewrites earlier messages, which OpenRLHF's agents cannot follow: "
            "take another template, or this project's trainer."
        )
    return whole[len(head) :].removeprefix(action[len(content) :])
