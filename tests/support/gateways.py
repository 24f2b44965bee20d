"""A gateway on a free port of this machine, and a client of it that hides nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer

from fctncalling import embedded_path
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Action, Engine, Request
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.gateway_server import GatewayServer
from fctncalling.lab.gateway.gateway_session import GatewaySession
from fctncalling.lab.gateway.sampler import Sampler

MAX_NEW_TOKENS = 48
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}


def embedded_engine() -> tuple[GenerationEngine, ChatTemplate]:
    """Return an engine over the embedded model, and its chat template."""
    folder = str(embedded_path("model"))
    template = ChatTemplate(AutoTokenizer.from_pretrained(folder))
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    engine = GenerationEngine(
        model.eval(), template.stop_ids, max_new_tokens=MAX_NEW_TOKENS, decode=template.decode
    )
    return engine, template


class TokenScript(Engine):
    """Engine that says what it is told: a list of token ids a request, in their order."""

    def __init__(self, answers: Sequence[Sequence[int]] = ()) -> None:
        self.answers = list(answers)
        self.prompts: list[list[int]] = []
        self._held: dict[int, list[int]] = {}
        self._asked: list[Request] = []

    def allocate_slots(self, num_slots: int) -> None:
        self._held = {slot: [] for slot in range(num_slots)}
        self._asked = []

    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        self._held[slot] = []

    def restart_sequence(self, slot: int) -> None:
        self._held[slot] = []

    def submit(self, request: Request) -> None:
        self._held[request.slot] += request.new_ids
        self._asked.append(request)

    def advance(self) -> list[tuple[int, Action]]:
        finished = []
        for request in self._asked:
            self.prompts.append(list(self._held[request.slot]))
            action = Action(stop_reason="end")
            for number, token in enumerate(self.answers.pop(0)):
                action.append(token, -0.5 - number)
                if request.on_token is not None:
                    request.on_token(token, -0.5)
            self._held[request.slot] += action.ids
            finished.append((request.slot, action))
        self._asked = []
        return finished


class GatewayClient:
    """Talks to a gateway over one connection."""

    def __init__(self, server: GatewayServer, session: str = "", key: str = "") -> None:
        host, port = server.address.removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self.prefix = f"/s/{session}" if session else ""
        self.key = key

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, path, data, {**sent, **headers})
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def post(self, path: str, **body: Any) -> Any:
        """Return the JSON that answers a POST behind the session's prefix."""
        status, answer = self.ask("POST", self.prefix + path, body)
        assert status == 200, answer
        return answer

    def chat(self, messages: Sequence[Any], **fields: Any) -> Any:
        """Return the first choice of a chat completion."""
        return self.post("/v1/chat/completions", messages=list(messages), **fields)["choices"][0]

    def close(self) -> None:
        self._connection.close()


class RunningGateway:
    """A gateway with its server; `ended` has the sessions that are over."""

    def __init__(self, gateway: Gateway, server: GatewayServer) -> None:
        self.gateway = gateway
        self.server = server
        self.ended: list[GatewaySession] = []
        gateway.on_end = self.ended.append

    def client(self, session: str = "", key: str = "") -> GatewayClient:
        return GatewayClient(self.server, session, key)

    def session(self, session: str) -> GatewaySession:
        found = [each for each in self.ended if each.id == session]
        return found[0] if found else self.gateway.sessions[session]


@contextlib.contextmanager
def running_gateway(
    engine: Engine, template: ChatTemplate, num_slots: int = 8, **settings: Any
) -> Iterator[RunningGateway]:
    """Serve a gateway while the context is open."""
    sampler, over = Sampler(num_slots), threading.Event()
    score = settings.pop("score", None)
    gateway = Gateway(template, sampler, GatewaySettings(**settings), score=score)
    server = GatewayServer(gateway)
    threads = [
        threading.Thread(target=sampler.run, args=(engine, over.is_set)),
        threading.Thread(target=server.serve_forever, args=(0.02,)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield RunningGateway(gateway, server)
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        sampler.close()
        for thread in threads:
            thread.join()


def recorded_lines(folder: Path) -> list[Any]:
    """Return the sessions that a folder holds."""
    file = folder / "episodes" / "train_000000.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
