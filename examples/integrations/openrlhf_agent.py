"""OpenRLHF's agent executor plays this project's tasks.

Training with OpenRLHF needs GPUs; here its own executor is driven with an engine that is a script,
without vLLM:

  python3.11 -m venv /tmp/openrlhf
  /tmp/openrlhf/bin/pip install torch==2.13.0 transformers==5.23.0 aiohttp
  /tmp/openrlhf/bin/pip install --no-deps openrlhf==0.11.2
  /tmp/openrlhf/bin/pip install .
  /tmp/openrlhf/bin/python examples/integrations/openrlhf_agent.py
"""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from transformers import AutoTokenizer

# Its package imports vLLM's and DeepSpeed's side at once; the agents need nothing of it.
_folder = Path(str(find_spec("openrlhf").origin)).parent  # type: ignore[union-attr]
_utils, _logging = ModuleType("openrlhf.utils"), ModuleType("openrlhf.utils.logging_utils")
_utils.__path__ = [str(_folder / "utils")]
_logging.init_logger = logging.getLogger  # type: ignore[attr-defined]
sys.modules |= {module.__name__: module for module in (_utils, _logging)}

from openrlhf.utils.agent import MultiTurnAgentExecutor

from fctncalling import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.openrlhf import agent_instance, dataset_rows


class ScriptedEngine:
    """Engine that answers with the right calls of a task; replaces vLLM."""

    def __init__(self, task: Task, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts = [message["content"] for message in oracle_messages(task, "prompting")]

    async def generate(self, tokens: list[int], sampling_params: Any, **_: Any) -> Any:
        """Return the next answer as vLLM would."""
        text = self._texts.pop(0) + self._tokenizer.eos_token
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=ids, text=text, finish_reason="stop")]
        )


def main() -> None:
    """Play two multi-turn tasks; print the reward and the number of the model's tokens."""
    tokenizer = AutoTokenizer.from_pretrained(embedded_path("model"))
    tasks = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:2]
    executor = MultiTurnAgentExecutor(agent_instance(tasks, tokenizer))
    for task, row in zip(tasks, dataset_rows(tasks, tokenizer), strict=True):
        played = asyncio.run(
            executor.execute(
                row["prompt"],
                row["label"],
                SimpleNamespace(max_tokens=64, logprobs=None),
                4096,
                tokenizer,
                ScriptedEngine(task, tokenizer),
            )
        )
        trained = sum(end - start for start, end in played["action_ranges"])
        print(
            f"{task.id}: reward {played['reward']}, {trained} of "
            f"{len(played['observation_tokens'])} tokens are the model's"
        )


if __name__ == "__main__":
    main()
