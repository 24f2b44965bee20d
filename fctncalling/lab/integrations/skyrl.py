"""SkyRL-Gym (tested with 0.4): tasks as a text environment, for SkyRL's generator.

`register(id="bfcl", entry_point=text_env(load_tasks(...)))` of skyrl_gym makes them known; rows of
the training set are `dataset_rows(tasks, "bfcl")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from fctncalling.data.types import Message, Task
from fctncalling.lab.dialogue import Dialogue, info_to_json, opening

ANSWER_FORM = "prompting"  # SkyRL passes texts: schemas are in the prompt, calls in the answer


def dataset_rows(tasks: Sequence[Task], env_class: str) -> list[dict[str, Any]]:
    """Return a row of each task: opening messages and id, in SkyRL's columns."""
    return [
        {"prompt": opening(task, ANSWER_FORM).messages, "env_class": env_class, "task_id": task.id}
        for task in tasks
    ]


def text_env(tasks: Sequence[Task], **keywords: Any) -> type[BaseTextEnv]:
    """Make the class of environments for these tasks; keywords are `Dialogue`'s.

    The last step's metadata holds BFCL's verdict. Raises InfrastructureError where the tools
    failed: the episode has no reward.
    """
    by_id = {task.id: task for task in tasks}

    class TextEnv(BaseTextEnv):
        """Episode of the row's task."""

        def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
            super().__init__()
            task = by_id[(extras or {})["task_id"]]
            self.dialogue = Dialogue(task, form=ANSWER_FORM, **keywords)

        def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
            return self.dialogue.open(), {}

        def step(self, action: str) -> BaseTextEnvStepOutput:
            before = self.dialogue.reward
            answers = self.dialogue.reply(action)
            verdict = self.dialogue.verdict
            return BaseTextEnvStepOutput(
                observations=answers,
                reward=self.dialogue.reward - before,
                done=self.dialogue.done,
                metadata=info_to_json({"verdict": verdict}) if verdict else {},
            )

        def close(self) -> None:
            self.dialogue.close()

    return TextEnv
