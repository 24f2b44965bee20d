"""Turn-taking with TRL's trainers, shared by trl_rollout.py and trl_update.py.

Run by the Python of TRL's environment; of this project it knows nothing. Import it before TRL: it
sets the environment variables that TRL and its libraries read.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ |= {
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

import torch
import transformers
import trl
from trl import GRPOConfig, GRPOTrainer

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever libraries print goes to stderr


def tell(**answer: object) -> None:
    """Write one line to the controlling process."""
    print(json.dumps(answer), file=ANSWERS, flush=True)


def wait_for_turn() -> None:
    """Wait for the next line of stdin; exit at its end."""
    if not sys.stdin.readline():
        raise SystemExit(0)


def read_job() -> dict[str, Any]:
    """Read the job from the first line of stdin; limit torch to one thread."""
    torch.set_num_threads(1)
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    return job


def grpo_config(folder: str, **settings: Any) -> GRPOConfig:
    """Return TRL's settings of a plain fp32 CPU run that writes no files."""
    return GRPOConfig(
        output_dir=folder,
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


def train(trainer: GRPOTrainer) -> None:
    """Report the versions, then train in turns."""
    tell(trl=trl.__version__, transformers=transformers.__version__, torch=torch.__version__)
    trainer.train()
