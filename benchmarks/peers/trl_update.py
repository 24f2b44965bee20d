"""TRL's side of `python benchmarks/update.py --vs trl`: GRPO, one update per turn.

Run by the Python of TRL's environment; of this project it knows nothing. The first line of stdin is
the job (JSON: model folder, rows of tokens with their rewards, settings); each further line is a
turn, answered by the CPU seconds of one update and its gradient norms. The trainer's own `train()`
runs its own loop: padding, its pass for the old log-probabilities, loss, backward pass, clipping,
optimiser step. Rows come in through `rollout_func`, its door for rollouts made elsewhere; what it
spends there, decoding them to text included, is left out of the seconds.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch

# TRL and its libraries read the environment variables that this one sets.
from trl_turns import grpo_config, read_job, tell, train, wait_for_turn

# isort: split
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOTrainer


class TurnTaker(GRPOTrainer):
    """TRL's trainer, which waits for its turn and counts CPU seconds per update."""

    started = left_out = 0.0
    norms: tuple[float, ...] = ()

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Run TRL's step; wait for the turn at the start of an update."""
        if self._step % (self.args.steps_per_generation * self.num_iterations) == 0:
            wait_for_turn()
            self.left_out, self.norms, self.started = 0.0, (), time.process_time()
        return super().training_step(model, inputs, num_items_in_batch)

    def _generate(self, prompts: list[Any]) -> Any:
        before = time.process_time()
        rows = super()._generate(prompts)
        self.left_out += time.process_time() - before
        return rows

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        self.norms += (float(norm),)
        return norm


class Bell(TrainerCallback):
    """Callback that reports the CPU seconds of each update."""

    def __init__(self, steps: int) -> None:
        self.steps, self.trainer = steps, None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer after the last optimiser step of an update."""
        if state.global_step % self.steps == 0:
            trainer: Any = self.trainer
            tell(
                cpu_s=time.process_time() - trainer.started - trainer.left_out, norms=trainer.norms
            )


def main() -> None:
    """Build TRL's trainer of the job and train in turns."""
    job = read_job()
    rows, steps = job["rows"], job["minibatches"]
    parts = len(rows) // job["rows_a_pass"]
    with tempfile.TemporaryDirectory() as folder:
        config = grpo_config(
            folder,
            per_device_train_batch_size=job["rows_a_pass"],
            gradient_accumulation_steps=parts // steps,
            steps_per_generation=parts,
            num_generations=job["group_size"],
            num_iterations=job["epochs"],
            max_steps=job["turns"] * steps * job["epochs"],
            max_completion_length=4096,
            learning_rate=job["lr"],
            max_grad_norm=job["max_grad_norm"],
            epsilon=job["clip_low"],
            epsilon_high=job["clip_high"],
            scale_rewards="none",
        )
        bell = Bell(steps * job["epochs"])
        trainer = TurnTaker(
            model=AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(job["model"]),
            reward_funcs=lambda completions, **_: [row["reward"] for row in rows],
            args=config,
            train_dataset=Dataset.from_list(
                [{"prompt": str(task)} for task in range(len(rows) // job["group_size"])]
            ),
            rollout_func=lambda prompts, trainer: {
                "prompt_ids": [row["prompt"] for row in rows],
                "completion_ids": [row["completion"] for row in rows],
                "env_mask": [row["acted"] for row in rows],
                "logprobs": None,
            },
            callbacks=[bell],
        )
        bell.trainer = trainer
        train(trainer)


if __name__ == "__main__":
    main()
