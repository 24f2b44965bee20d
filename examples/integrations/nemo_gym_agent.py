"""NeMo Gym's gymnasium agent plays this project's multi-turn tasks.

  python3.12 -m venv /tmp/nemo
  /tmp/nemo/bin/pip install nemo-gym==0.4.0
  /tmp/nemo/bin/pip install .
  /tmp/nemo/bin/python examples/integrations/nemo_gym_agent.py

NeMo Gym's own agent and server classes run here, each on a port as its launcher starts them; the
model is a server that answers the first task with the right calls, and the second with none.
"""

from __future__ import annotations

import atexit
import socket
import threading
import time
from typing import Any

import requests
import uvicorn
from fastapi import FastAPI
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.config_types import BaseServerConfig, ModelServerRef, ResourcesServerRef
from nemo_gym.server_utils import ServerClient, global_aiohttp_client_exit
from omegaconf import OmegaConf
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.nemo_gym import dataset_rows, resources_server

TASKS = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:2]
HOST = "127.0.0.1"


def output(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a chat message as a response's output: its calls, or its text."""
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]}
        for call in message.get("tool_calls", ())
    ]
    return calls or [text(message["content"])]


def text(words: str) -> dict[str, Any]:
    """Return an output that is a text."""
    content = [{"type": "output_text", "text": words, "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    return {**message, "content": content}


model = FastAPI()


@model.post("/v1/responses")
def respond(body: dict[str, Any]) -> dict[str, Any]:
    """Answer with the script's next output, or with a text in every other task."""
    own = body["input"][0]["content"] == TASKS[0].question[0][0]["content"]
    given, begun = 0, False  # outputs so far: calls that follow each other are one
    for each in body["input"]:
        called = each.get("type") == "function_call"
        given += each.get("role") == "assistant" or (called and not begun)
        begun = called
    return {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": "script",
        "output": output(oracle_messages(TASKS[0])[given]) if own else [text("No.")],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }


def serve(app: FastAPI, port: int) -> None:
    """Serve an application; return when it answers."""
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)


def free_ports(number: int) -> list[int]:
    """Return free ports."""
    sockets = [socket.socket() for _ in range(number)]
    for socket_ in sockets:
        socket_.bind((HOST, 0))
    ports = [socket_.getsockname()[1] for socket_ in sockets]
    for socket_ in sockets:
        socket_.close()
    return ports


def main() -> None:
    """Serve model, tasks and agent; play two tasks."""
    names = {"script": "responses_api_models", "tasks": "resources_servers", "player": "agents"}
    ports = dict(zip(names, free_ports(3), strict=True))
    where = {name: {"host": HOST, "port": ports[name], "entrypoint": "app.py"} for name in names}
    client = ServerClient(
        head_server_config=BaseServerConfig(host=HOST, port=1),
        global_config_dict=OmegaConf.create({n: {names[n]: {n: where[n]}} for n in names}),
    )
    tasks = resources_server(TASKS)(
        config=BaseResourcesServerConfig(name="tasks", **where["tasks"]), server_client=client
    )
    player = GymnasiumAgent(
        config=GymnasiumAgentConfig(
            name="player",
            resources_server=ResourcesServerRef(type="resources_servers", name="tasks"),
            model_server=ModelServerRef(type="responses_api_models", name="script"),
            **where["player"],
        ),
        server_client=client,
    )
    serve(model, ports["script"])
    serve(tasks.setup_webserver(), ports["tasks"])
    serve(player.setup_webserver(), ports["player"])
    for row in dataset_rows(TASKS):
        answer = requests.post(f"http://{HOST}:{ports['player']}/run", json=row, timeout=60)
        answer.raise_for_status()
        played = answer.json()
        verdict = played["info"]["verdict"]
        print(f"{row['task_id']}: reward {played['reward']}, valid {verdict['valid']}")
    # The client of NeMo Gym lives in the player's thread: it cannot be closed from this one.
    atexit.unregister(global_aiohttp_client_exit)


if __name__ == "__main__":
    main()
