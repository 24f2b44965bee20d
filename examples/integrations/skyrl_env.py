"""SkyRL-Gym plays this project's tasks: the environment for SkyRL's generator.

python3.11 -m venv /tmp/skyrl
/tmp/skyrl/bin/pip install skyrl-gym==0.4.0
/tmp/skyrl/bin/pip install .
/tmp/skyrl/bin/python examples/integrations/skyrl_env.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skyrl_gym
from skyrl_gym.envs.registration import register

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.skyrl import dataset_rows, text_env


def play(row: dict[str, Any], texts: Sequence[str]) -> tuple[float, bool]:
    """Play a row as SkyRL's generator does, with a scripted model; return reward and verdict."""
    columns = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    env = skyrl_gym.make(row["env_class"], env_config=None, extras=columns)
    env.init(row["prompt"])
    total = 0.0
    for text in texts:
        step = env.step(text)
        total += step["reward"]
        if step["done"]:
            break
    env.close()
    return total, step["metadata"]["verdict"]["valid"]


def main() -> None:
    """Play two multi-turn tasks perfectly; print reward and verdict."""
    tasks = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:2]
    register(id="bfcl", entry_point=text_env(tasks))
    for task, row in zip(tasks, dataset_rows(tasks, "bfcl"), strict=True):
        messages = oracle_messages(task, "prompting")
        print(task.id, *play(row, [message["content"] for message in messages]))


if __name__ == "__main__":
    main()
