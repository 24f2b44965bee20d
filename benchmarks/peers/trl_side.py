"""TRL's side of the comparisons: its GRPO trainer, which works in turns.

Run by the Python of TRL's environment; of this project it knows nothing. The first line of stdin is
the job (JSON), answered by the versions; each further line is a turn, answered by CPU seconds of
the trainer's own `train()`:

- {"kind": "update"}, for `python benchmarks/update.py --vs trl`: rows of tokens with their rewards.
  Measured is one update: padding, the pass for the old log-probabilities, loss, backward pass,
  clipping, optimiser steps. Rows come in through `rollout_func`, TRL's door for rollouts made
  elsewhere; what it spends there, decoding them to text included, is left out of the seconds.
- {"kind": "rollout"}, for `python benchmarks/rollout.py --parts trl`: GRPO with
  `environment_factory`. Measured is an iteration: generating and calling tools (rollout_s), and all
  of it, to the optimiser step (whole_s).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_instruct_2507_chat_template

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever libraries print goes to stderr


def answer(**figures: object) -> None:
    """Write one line to the controlling process."""
    print(json.dumps(figures), file=ANSWERS, flush=True)


class TurnTaker(GRPOTrainer):
    """TRL's trainer, which waits for its turn and counts CPU seconds."""

    started = generating_s = 0.0
    num_sampled = 0
    norms: tuple[float, ...] = ()

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Run TRL's step; wait for the turn at the start of an update, and exit without one."""
        if self._step % (self.args.steps_per_generation * self.num_iterations) == 0:
            if not sys.stdin.readline():
                raise SystemExit(0)
            self.generating_s, self.norms, self.started = 0.0, (), time.process_time()
        return super().training_step(model, inputs, num_items_in_batch)

    def _generate(self, *args: Any, **keywords: Any) -> Any:
        before = time.process_time()
        completion = super()._generate(*args, **keywords)
        self.generating_s += time.process_time() - before
        self.num_sampled = sum(map(sum, completion[2]))
        return completion

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        self.norms += (float(norm),)
        return norm


class Bell(TrainerCallback):
    """Callback that reports the CPU seconds of each update."""

    trainer: Any = None

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Answer after the last optimiser step of an update."""
        if state.global_step % self.steps == 0:
            whole, trainer = time.process_time() - self.trainer.started, self.trainer
            answer(
                whole_s=whole,
                rollout_s=trainer.generating_s,
                cpu_s=whole - trainer.generating_s,
                norms=trainer.norms,
                num_sampled=trainer.num_sampled,
            )


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


def update_job(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the trainer's settings and arguments of a job of rows."""
    rows, steps = job["rows"], job["minibatches"]
    parts = len(rows) // job["rows_a_pass"]
    settings = {
        "per_device_train_batch_size": job["rows_a_pass"],
        "gradient_accumulation_steps": parts // steps,
        "steps_per_generation": parts,
        "num_iterations": job["epochs"],
        "max_steps": job["turns"] * steps * job["epochs"],
        "max_completion_length": 4096,
        "max_grad_norm": job["max_grad_norm"],
        "epsilon": job["clip_low"],
        "epsilon_high": job["clip_high"],
        "scale_rewards": "none",
    }
    arguments = {
        "reward_funcs": lambda completions, **_: [row["reward"] for row in rows],
        "prompts": [str(task) for task in range(len(rows) // job["group_size"])],
        "rollout_func": lambda prompts, trainer: {
            "prompt_ids": [row["prompt"] for row in rows],
            "completion_ids": [row["completion"] for row in rows],
            "env_mask": [row["acted"] for row in rows],
            "logprobs": None,
        },
    }
    return settings, arguments


def rollout_job(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the trainer's settings and arguments of a job of questions."""
    settings = {
        "per_device_train_batch_size": job["group_size"] * len(job["questions"]),
        "max_steps": job["turns"],
        "max_completion_length": 2048,
        "max_tool_calling_iterations": job["num_steps"] - 1,
        "scale_rewards": "group",
    }
    arguments = {
        "reward_funcs": lambda completions, **_: [
            float(number % 2) for number in range(len(completions))
        ],
        "prompts": [[{"role": "user", "content": text}] for text in job["questions"]],
        "environment_factory": Adder,
    }
    return settings, arguments


def main() -> None:
    """Build TRL's trainer of the job and train in turns."""
    torch.set_num_threads(1)
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    folder = Path(job["model"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if job["kind"] == "rollout":
        tokenizer.chat_template = qwen3_instruct_2507_chat_template
        (folder / "chat_template.jinja").write_text(tokenizer.chat_template)
    settings, arguments = (rollout_job if job["kind"] == "rollout" else update_job)(job)
    prompts = arguments.pop("prompts")
    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(  # a plain fp32 run on a CPU that writes no files
            output_dir=output,
            learning_rate=job["lr"],
            num_generations=job["group_size"],
            lr_scheduler_type="constant",
            beta=0.0,
            loss_type="dapo",  # a mean over tokens
            temperature=1.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            **settings,
        )
        bell = Bell(job.get("minibatches", 1) * job.get("epochs", 1))
        bell.trainer = TurnTaker(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            processing_class=tokenizer,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
            callbacks=[bell],
            **arguments,
        )
        answer(trl=trl.__version__, transformers=transformers.__version__, torch=torch.__version__)
        bell.trainer.train()


if __name__ == "__main__":
    main()
