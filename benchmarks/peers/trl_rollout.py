"""TRL's side of `python benchmarks/rollout.py --parts trl`: GRPO with `environment_factory`.

Run by the Python of TRL's environment; of this project it knows nothing. The first line of stdin is
the job (JSON); each further line is a turn, answered by the CPU seconds of one iteration of the
trainer's own `train()`: generating and calling tools (rollout_s), and all of it, to the optimiser
step (whole_s).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

# TRL and its libraries read the environment variables that this one sets.
from trl_turns import grpo_config, read_job, tell, train, wait_for_turn

# isort: split
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOTrainer
from trl.chat_template_utils import qwen3_instruct_2507_chat_template


class Adder:
    """Environment with one tool."""

    def reset(self, **kwargs: Any) -> None:
        """Begin anew; the prompt is complete."""

    def add(self, first: int, second: int, third: int, fourth: int) -> str:
        """
        Add four numbers.

        Args:
            first: The first number.
            second: The second number.
            third: The third number.
            fourth: The fourth number.

        Returns:
            The sum.
        """
        return str(first + second + third + fourth)


class TurnTaker(GRPOTrainer):
    """TRL's trainer, which waits for its turn and counts CPU seconds per iteration."""

    started = rollout_s = 0.0
    num_sampled = 0

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Run TRL's step after waiting for the turn."""
        wait_for_turn()
        self.started = time.process_time()
        return super().training_step(model, inputs, num_items_in_batch)

    def _generate(self, *args: Any, **keywords: Any) -> Any:
        before = time.process_time()
        completion = super()._generate(*args, **keywords)
        self.rollout_s = time.process_time() - before
        self.num_sampled = sum(map(sum, completion[2]))
        return completion


class Bell(TrainerCallback):
    """Callback that reports the CPU seconds of each iteration."""

    trainer: Any = None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer."""
        whole = time.process_time() - self.trainer.started
        tell(rollout_s=self.trainer.rollout_s, whole_s=whole, num_sampled=self.trainer.num_sampled)


def main() -> None:
    """Build TRL's trainer of the job and train in turns."""
    job = read_job()
    folder = Path(job["folder"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = qwen3_instruct_2507_chat_template
    (folder / "chat_template.jinja").write_text(tokenizer.chat_template)
    questions = [[{"role": "user", "content": text}] for text in job["questions"]]
    with tempfile.TemporaryDirectory() as output:
        config = grpo_config(
            output,
            per_device_train_batch_size=job["group_size"] * len(questions),
            num_generations=job["group_size"],
            max_steps=job["turns"],
            max_completion_length=2048,
            max_tool_calling_iterations=job["num_steps"] - 1,
            learning_rate=job["lr"],
            scale_rewards="group",
        )
        bell = Bell()
        trainer = TurnTaker(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            processing_class=tokenizer,
            reward_funcs=lambda completions, **_: [
                float(number % 2) for number in range(len(completions))
            ],
            args=config,
            train_dataset=Dataset.from_list([{"prompt": question} for question in questions]),
            environment_factory=Adder,
            callbacks=[bell],
        )
        bell.trainer = trainer
        train(trainer)


if __name__ == "__main__":
    main()
