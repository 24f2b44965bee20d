"""A stand-in for a vLLM server: the same routes, a real model with real adapters behind them, and
planned failures.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

Plan = Callable[[int, dict[str, Any]], int | str | None]
"""(number of the completion asked for, from 0, its body) -> an HTTP status, "drop", or None: it is
answered.
"""


class StubVllm:
    """Samples with full forward passes. `restart` forgets all adapters and loaded weights, as a
    new process would.
    """

    def __init__(self, model: Path, plan: Plan, *, processed_logprobs: bool) -> None:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._base = AutoModelForCausalLM.from_pretrained(str(model), dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(str(model))
        self._peft_class, self._peft = PeftModel, None
        self.plan, self.processed_logprobs = plan, processed_logprobs
        self.adapters: dict[str, str] = {}  # name -> folder, as loaded now
        self._start = {name: it.clone() for name, it in self._base.state_dict().items()}
        self.weights_version = "default"
        self.reloads: list[str] = []  # every folder that whole weights came from
        self.paused, self.ignores_reloads = False, False
        self.loaded: list[tuple[str, str]] = []  # every (name, folder) that ever was
        self.most_adapters = 0
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.RLock()
        self.url = ""
        self.down = False  # every connection is dropped

    def restart(self) -> None:
        self.adapters.clear()
        self._base.load_state_dict(self._start)
        self.weights_version = "default"

    def load(self, name: str, folder: str) -> int:
        if name in self.adapters:
            return 400
        if not (Path(folder) / "adapter_model.safetensors").is_file():
            return 404
        if (name, folder) not in self.loaded:
            if self._peft is None:
                self._peft = self._peft_class.from_pretrained(self._base, folder, adapter_name=name)
            else:
                self._peft.load_adapter(folder, adapter_name=name)
        self.adapters[name] = folder
        self.loaded.append((name, folder))
        self.most_adapters = max(self.most_adapters, len(self.adapters))
        return 200

    @torch.inference_mode()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if "prompt_logprobs" in body:
            return {"choices": [{"prompt_logprobs": self._prompt_logprobs(body["prompt"])}]}
        if body["model"] != "base":
            assert self._peft is not None
            self._peft.set_adapter(body["model"])
        model = self._base if body["model"] == "base" else self._peft
        generator = torch.Generator().manual_seed(body.get("seed", 0))
        ids, out, told, best = (
            list(body["prompt"]),
            list[int](),
            list[float](),
            list[dict[str, float]](),
        )
        reason, stop = "length", None
        while len(out) < body["max_tokens"] and reason == "length":
            logits = model(torch.tensor([ids + out])).logits[0, -1]
            heat = body["temperature"]
            scaled = (logits / heat if heat and self.processed_logprobs else logits).log_softmax(-1)
            drawn = torch.multinomial((logits / (heat or 1)).softmax(-1), 1, generator=generator)
            token = int(drawn if heat else logits.argmax())
            out.append(token)
            told.append(float(scaled[token]))
            best.append({"best": float(scaled.max())})
            text = self.tokenizer.decode(out)
            found = [each for each in body.get("stop", []) if each in text]
            if token in body.get("stop_token_ids", []):
                reason, stop = "stop", token
            elif found:
                reason, stop = "stop", found[0]
        logprobs = {"token_logprobs": told, "top_logprobs": best}
        choice = {
            "token_ids": out,
            "logprobs": logprobs,
            "finish_reason": reason,
            "stop_reason": stop,
        }
        return {"choices": [choice]}

    def _prompt_logprobs(self, ids: list[int]) -> list[dict[str, Any] | None]:
        logprobs = self._base(torch.tensor([ids])).logits[0].log_softmax(-1)
        pairs = zip(ids[1:], logprobs, strict=False)
        return [None, *({str(each): {"logprob": float(row[each])}} for each, row in pairs)]

    def reload(self, folder: str) -> int:
        """Load whole weights, as the worker's method of that name does."""
        from safetensors.torch import load_file

        assert self.paused
        files = list(Path(folder).glob("*.safetensors"))
        if not files:
            return 500
        self.reloads.append(folder)
        if not self.ignores_reloads:
            weights = {name: it for file in files for name, it in load_file(file).items()}
            assert not self._base.load_state_dict(weights, strict=False).unexpected_keys
        return 200

    def control(self, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        """Return the reply of the routes that change weights; None for another route."""
        if path in ("/pause?mode=wait", "/resume"):
            self.paused = path != "/resume"
        elif path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            return self.reload(body["kwargs"]["weights_path"]), {}
        elif path == "/update_weight_version":
            self.weights_version = body["new_version"]
        else:
            return None
        return 200, {}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        """Return status and JSON; None where the connection is to be dropped."""
        if self.down:
            return None
        if path == "/v1/load_lora_adapter":
            status = self.load(body["lora_name"], body["lora_path"])
            return status, {"message": "has already been loaded" if status == 400 else ""}
        if path == "/v1/unload_lora_adapter":
            return 200 if self.adapters.pop(body["lora_name"], None) else 404, {}
        if (done := self.control(path, body)) is not None:
            return done
        assert not self.paused
        self.bodies.append(body)
        planned = self.plan(len(self.bodies) - 1, body)
        if planned == "drop":
            return None
        if planned is not None:
            return int(planned), {"error": "planned"}
        if body["model"] not in ("base", *self.adapters):
            return 404, {"error": f"The model `{body['model']}` does not exist."}
        return 200, self.complete(body)


@contextmanager
def vllm_stub(
    model: Path, plan: Plan = lambda number, body: None, *, processed_logprobs: bool = True
) -> Iterator[StubVllm]:
    """Serve a model folder on a free port of this machine."""
    stub = StubVllm(model, plan, processed_logprobs=processed_logprobs)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if stub.down:
                self._drop()
                return
            if self.path == "/weight_info":
                self._reply(200, {"weight_version": stub.weights_version})
                return
            self._reply(200, {"data": [{"id": name} for name in ["base", *stub.adapters]]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with stub.lock:
                answer = stub.answer(self.path, body)
            if answer is None:
                self._drop()
                return
            self._reply(*answer)

        def _drop(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _reply(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
