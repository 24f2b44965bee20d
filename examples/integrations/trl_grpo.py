"""TRL's GRPOTrainer learns two steps on this project's tasks, by whole episodes.

python3.11 -m venv /tmp/trl
/tmp/trl/bin/pip install torch==2.13.0 trl==1.16.0 transformers==5.23.0
/tmp/trl/bin/pip install .
/tmp/trl/bin/python examples/integrations/trl_grpo.py
"""

from __future__ import annotations

import os
import tempfile

os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.integrations.trl import dataset_rows, rollout_func, rollout_reward


def main() -> None:
    """Train two steps on multi-turn tasks; print the rewards."""
    torch.set_num_threads(1)
    tasks = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:16]
    folder = str(embedded_path("model"))
    with tempfile.TemporaryDirectory() as output:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(folder),
            reward_funcs=rollout_reward,
            rollout_func=rollout_func(tasks, max_episode_tokens=1024),
            train_dataset=Dataset.from_list(dataset_rows(tasks)),
            args=GRPOConfig(
                output_dir=output,
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=64,
                max_steps=2,
                learning_rate=1e-4,
                use_cpu=True,
                bf16=False,
                report_to="none",
                logging_steps=1,
                save_strategy="no",
            ),
        )
        trainer.train()
    for line in trainer.state.log_history:
        if "reward" in line:
            print(f"step {line['step']}: reward {line['reward']}, grad norm {line['grad_norm']}")


if __name__ == "__main__":
    main()
