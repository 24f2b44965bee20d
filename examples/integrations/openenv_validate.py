"""OpenEnv validates the package in examples/openenv_package, at every level without Docker.

python3.11 -m venv /tmp/openenv
/tmp/openenv/bin/pip install openenv==0.10.0
/tmp/openenv/bin/pip install .
/tmp/openenv/bin/python examples/integrations/openenv_validate.py report.json

OpenEnv starts a package in a container; here a process takes the container's place, so nothing is
said of what containers are for. Its 0.10 has names for semantic checks, and no graders: those here
are graders of its protocol, and say so in their evidence.
"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from openenv.cli._validation import validate_running_environment
from openenv.validation import load_policy, run_validation, write_report
from openenv.validation.policy import apply_policy
from openenv.validation.providers import StartupError
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Lane, ProviderCapability

from fctncalling import embedded_path, load_tasks
from fctncalling.lab.integrations.openenv import ChatAction, ChatClient

PACKAGE = Path(__file__).resolve().parents[1] / "openenv_package"
EACH = 3  # tasks of each category that the semantic checks play
sys.path.insert(0, str(PACKAGE / "solution"))
import oracle


class Process:
    """Package's server as a local process: OpenEnv's RunningSubject."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "uvicorn", "--app-dir", str(PACKAGE), "server.app:app"]
        self._process = subprocess.Popen([*command, "--port", str(port), "--log-level", "warning"])
        for _ in range(1200):  # a busy machine takes a minute
            try:
                with urllib.request.urlopen(f"{self.base_url}/health", timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise StartupError("the server does not answer /health")

    def inspect(self) -> dict[str, Any]:
        """Describe the environment that ran the package."""
        return {"container": False, "pid": self._process.pid}

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(timeout=10)


class ProcessProvider:
    """Local processes in place of containers: OpenEnv's ValidationProvider."""

    name = "process (no container)"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public", "no-network"})

    def build(self, root: Path, execution: Any) -> str:
        """Return a name in place of an image's digest."""
        return "sha256:" + "0" * 64

    def start(self, spec: Any) -> Process:
        """Start the server."""
        return Process()


def ask(url: str, what: str, **query: Any) -> Any:
    """Return an answer of the Task API."""
    body, headers = json.dumps(query).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/fctncalling/{what}", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def rewards(client: Any, messages_of: Callable[[int], Any], sample: list[int]) -> list[float]:
    """Return the reward of each episode played with the messages `said(index)`."""
    return [oracle.play(client, index, messages_of(index)) for index in sample]


def shown(client: Any, index: int, messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield all observations of an episode, step by step."""
    yield client.reset(split="test", index=index, seed=7).observation.model_dump_json()
    for message in messages:
        yield client.step(ChatAction(**message)).observation.model_dump_json()


def checks(url: str, declared: Any) -> Iterator[tuple[str, bool, str]]:
    """Yield (check, whether it holds, what was measured)."""
    counts = {
        split: ask(url, "num_tasks", split=split)["num_tasks"]
        for split in declared.declared_task_count
    }
    holds = counts == declared.declared_task_count
    yield "runtime.task_declaration_accuracy", holds, f"the Task API counts {counts}"
    tasks = load_tasks(embedded_path("held_out"))
    sample = oracle.chosen(tasks, EACH)
    truths = {index: oracle.actions(tasks[index]) for index in sample}
    with ChatClient(base_url=url).sync() as one, ChatClient(base_url=url).sync() as two:
        best, again = (rewards(client, truths.__getitem__, sample) for client in (one, two))
        full = f"{sum(reward == 1.0 for reward in best)} of {len(best)} episodes"
        yield "semantic.oracle_max", min(best) == 1.0, f"the oracle earns 1 in {full}"
        canaries = json.loads((PACKAGE / declared.canaries).read_text())
        floors = {
            name: sum(rewards(one, lambda _, said=said: [said] * 100, sample)) / len(sample)
            for name, said in canaries.items()
        }
        told = f"a policy that never calls earns {floors['noop']:.3f}, irrelevance included"
        yield "semantic.floor_gap", 1 - floors["noop"] >= 0.5, told
        holds = max(floors.values()) == floors["noop"]
        yield "semantic.canary_floor", holds, f"no canary earns more: {floors}"
        cut = [rewards(client, lambda index: truths[index][:-1], sample) for client in (one, two)]
        told = f"{2 * len(sample)} episodes, right and cut short, earn the same on two connections"
        yield "semantic.verifier_determinism", best == again and cut[0] == cut[1], told
        alone = [list(shown(one, index, truths[index])) for index in sample]
        replayed = [list(shown(two, index, truths[index])) for index in sample]
        told = f"{len(sample)} episodes show the same text, to the byte, when played again"
        for check in ("seed_control", "episode_determinism"):
            yield f"runtime.{check}", alone == replayed, told
        yield "semantic.replayability", alone == replayed, told
        pairs = list(itertools.pairwise(range(len(sample))))
        mixed = [
            list(itertools.zip_longest(*(shown(c, sample[i], truths[sample[i]]) for c, i in each)))
            for each in (((one, a), (two, b)) for a, b in pairs)
        ]
        holds = mixed == [list(itertools.zip_longest(alone[a], alone[b])) for a, b in pairs]
        told = f"{len(pairs)} pairs of episodes, a step of each in turn, show what each shows alone"
        yield "runtime.episode_isolation", holds, told
        entries = [ask(url, "task", split="test", index=index)["task"] for index in sample]
        first = [json.dumps(entry) + texts[0] for entry, texts in zip(entries, alone, strict=True)]
        hidden = not any(word in text for text in first for word in ("ground_truth", "verdict"))
        told = "Task API and first observations have no truth and no verdict"
        yield "semantic.no_solution_leakage", hidden, told


def main(output: str = "report.json") -> None:
    """Validate; write OpenEnv's report, print it, and OpenEnv's checks of a running server."""
    report = run_validation(PACKAGE, provider=ProcessProvider())
    server = Process()
    try:
        own = {}
        for name, holds, told in checks(server.base_url, report.manifest.capabilities):
            status = CheckStatus.PASS if holds else CheckStatus.FAIL
            evidence = [f"(ours) {told}"]
            own[name] = CheckResult(check_id=name, status=status, evidence=evidence, duration_s=0)
        running = validate_running_environment(server.base_url)["criteria"]
    finally:
        server.stop()
    report.results = [own.get(result.check_id, result) for result in report.results]
    report.verdict = apply_policy(report.results, load_policy("v2"), Lane.LOCAL)
    write_report(report, Path(output))
    for result in report.results:
        print(f"{result.status.value:5}{result.check_id}: {result.evidence[0]}")
    print("verdict:", report.verdict.value)
    for process in running:
        print("passed" if process["passed"] else "FAILED", process["description"])


if __name__ == "__main__":
    main(*sys.argv[1:])
