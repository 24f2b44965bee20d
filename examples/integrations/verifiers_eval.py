"""verifiers evaluates a model on this project's multi-turn tasks.

  python3.11 -m venv /tmp/verifiers
  /tmp/verifiers/bin/pip install verifiers==0.4.0
  /tmp/verifiers/bin/pip install .
  /tmp/verifiers/bin/python examples/integrations/verifiers_eval.py

The model here is a server that answers the first task with the right calls, and the second with
none. Another one, in this folder:
`PYTHONPATH=. vf-eval verifiers_eval --model MODEL --client.base-url URL --no-push`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.dialogue import oracle_messages
from fctncalling.lab.integrations.verifiers import plugins

TASKS = [task for task in load_tasks(embedded_path("train")) if task.is_multi_turn][:2]
Tasks, Player, Episode = plugins(TASKS)
__all__ = ["Episode", "Player", "Tasks"]


class Endpoint(BaseHTTPRequestHandler):
    """Scripted server of OpenAI's chat interface."""

    def do_POST(self) -> None:
        """Answer with the script's next message, or with a text in every other task."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        own = any(message["content"] == TASKS[0].question[0][0]["content"] for message in messages)
        num_answers = sum(message["role"] == "assistant" for message in messages)
        message = {"role": "assistant", "content": "No."}
        message = oracle_messages(TASKS[0])[num_answers] if own else message
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        completion = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "script",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        body = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log."""


def main() -> None:
    """Evaluate both tasks; print reward, verdict and number of the model's messages."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        config = EvalConfig(
            env={"taskset": {"id": "verifiers_eval"}},
            model="script",
            client={"base_url": f"http://127.0.0.1:{server.server_port}/v1", "api_key_var": "KEY"},
            push=False,
            rich=None,
            output_dir=folder,
        )
        episodes = asyncio.run(run_eval(config))
    for episode in sorted(episodes, key=lambda item: item.task.data.idx):
        [trace] = episode.traces
        assert trace.ok, trace.errors
        print(
            f"{trace.task.data.id}: reward {trace.reward}, valid {trace.metrics['valid']}, "
            f"{trace.num_turns} messages"
        )
    server.shutdown()


if __name__ == "__main__":
    main()
