"""Agent in another process that plays the run's BFCL tasks with our environment as tools.

The trainer starts it once and writes a JSON line an episode; it knows the model by its address
alone. It needs the standard library for that, and fctncalling for the tools:

    fctncalling train --agent_command "python examples/gateway/environment_agent.py"
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import urllib.request
from typing import Any

from fctncalling import FunctionCallingEnv
from fctncalling.algorithms.config import TrainConfig
from fctncalling.training.task_split import load_bfcl_tasks

TALKING = threading.Lock()


def complete(episode: dict[str, Any], messages: list[Any]) -> dict[str, Any]:
    """Return the model's next message, as text."""
    body = {"messages": messages, "tools": episode["task"]["tools"], "tool_choice": "none"}
    headers = {
        "Authorization": f"Bearer {episode['api_key']}",
        "Content-Type": "application/json",
    }
    url, data = f"{episode['base_url']}/chat/completions", json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        message: dict[str, Any] = json.load(answer)["choices"][0]["message"]
    return message


def play(episode: dict[str, Any], env: FunctionCallingEnv) -> None:
    """Play one episode and report its result."""
    task = episode["task"]
    outcome: dict[str, Any] = {"session": episode["session"]}
    try:
        _, info = env.reset(seed=task["seed"], options={"task_id": task["id"]})
        messages, total, done = list(info["messages"]), 0.0, False
        while not done:
            message = complete(episode, messages)
            _, reward, terminated, truncated, info = env.step(message["content"])
            messages += [message, *info["messages"]]
            total, done = total + float(reward), terminated or truncated
        verdict = info.get("verdict")
        outcome |= {"reward": total, "success": verdict is not None and verdict.valid}
        outcome |= {"error": info.get("invalid_reason", "")}
    except OSError as error:  # an HTTPError is one: a context that is full, say
        outcome["error"] = str(error)
    with TALKING:
        print(json.dumps(outcome), flush=True)


def main() -> None:
    """Play all episodes of a line at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset_path", help="the trainer's own; default: the embedded tasks")
    parser.add_argument("--eval_dataset_path", help="the trainer's own")
    parser.add_argument("--reward", default=TrainConfig().reward, help="as the trainer's")
    args = parser.parse_args()
    config = TrainConfig(
        dataset_path=args.dataset_path,
        eval_dataset_path=args.eval_dataset_path,
        eval_episodes=10**9,
    )
    training, held_out = load_bfcl_tasks(config)
    tasks = list({task.id: task for task in (*training, *held_out)}.values())
    for line in sys.stdin:
        env = FunctionCallingEnv(tasks=tasks, reward=args.reward)
        threading.Thread(target=play, args=(json.loads(line), env)).start()


if __name__ == "__main__":
    main()
