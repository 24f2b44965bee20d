"""An OpenEnv server of this project's tasks: validated by OpenEnv, played by its client.

python3.11 -m venv /tmp/openenv
/tmp/openenv/bin/pip install openenv==0.10.0
/tmp/openenv/bin/pip install .
/tmp/openenv/bin/python examples/integrations/openenv_server.py
"""

from __future__ import annotations

import json
import socket
import threading
import time

import uvicorn
from openenv.cli._validation import validate_running_environment

from fctncalling import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs import oracle_calls
from fctncalling.lab.integrations.openenv import ChatAction, ChatClient, openenv_app


def play(client: ChatClient, task: Task) -> tuple[float, bool]:
    """Play a task perfectly; return its reward and BFCL's verdict."""
    result = client.reset(task_id=task.id)
    total = 0.0
    for calls in oracle_calls(task):
        tool_calls = [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for number, call in enumerate(calls)
        ]
        for action in (ChatAction(tool_calls=tool_calls), ChatAction(content="Done.")):
            if action.tool_calls or action.content:
                result = client.step(action)
                total += result.reward or 0.0
    return total, result.observation.info["verdict"]["valid"]


def main() -> None:
    """Serve, validate, play two tasks."""
    tasks = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:2]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(openenv_app(tasks), port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    url = f"http://127.0.0.1:{port}"
    for criterion in validate_running_environment(url)["criteria"]:
        print("passed" if criterion["passed"] else "FAILED", criterion["description"])
    with ChatClient(base_url=url).sync() as client:
        for task in tasks:
            print(task.id, *play(client, task))
    server.should_exit = True


if __name__ == "__main__":
    main()
