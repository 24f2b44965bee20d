"""All eight tools against BFCL's recorded results, call by call."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import VerdictCounter

from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools import AGENTIC_TOOLS, TOOL_CLASSES

CATEGORIES = ("base", "miss_func", "miss_param", "long_context", "composite")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from map(json.loads, content.splitlines())


@pytest.fixture(scope="module")
def entries(shared: Path) -> dict[str, Any]:
    paths = [
        shared / "bfcl" / "data" / f"BFCL_v4_multi_turn_{category}.json" for category in CATEGORIES
    ]
    return {entry["id"]: entry for path in paths for entry in read_lines(path)}


@pytest.fixture(autouse=True)
def long_tables(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl" / "data" / "long_context.json")
    )


def session_of(entry: dict[str, Any], tool: str) -> ToolSession:
    """One tool alone: the tools of a task do not touch each other."""
    long_context = "long_context" in entry["id"] or "composite" in entry["id"]
    return ToolSession([tool], entry["initial_config"], long_context=long_context)


def knows(session: ToolSession, call: str) -> bool:
    return session.has_function(call.split("(")[0].strip())


def agrees(text: str, recorded: str | None, sha256: str) -> bool:
    """Whether a text is the recorded one; long ones are recorded by their digest."""
    return (
        text == recorded
        if recorded is not None
        else hashlib.sha256(text.encode()).hexdigest() == sha256
    )


@pytest.mark.parametrize("tool", [name for name in TOOL_CLASSES if name not in AGENTIC_TOOLS])
def test_valid_wrong_and_malformed_calls_give_the_recorded_results_and_states(
    tool: str, shared: Path, entries: dict[str, Any], verdict_counter: VerdictCounter
) -> None:
    compared, differences = 0, []
    for record in read_lines(shared / "bfcl" / "verdicts" / "multi_turn_fuzz.jsonl.gz"):
        if tool not in record["involved_classes"]:
            continue
        session = session_of(entries[record["id"]], tool)
        for step in record["calls"]:
            if knows(session, step["call"]):
                compared += 1
                text = session.execute(step["call"])
                if not agrees(text, step.get("result"), step.get("result_sha256", "")):
                    differences.append((record["id"], step["call"]))
        final = {name: repr(value) for name, value in session.public_state()[tool].items()}
        recorded = record["final_state_repr"][tool]
        differences += [(record["id"], name) for name in final.keys() ^ recorded.keys()]
        for name in final.keys() & recorded.keys():
            text = recorded[name]
            if not (
                final[name] == text
                if isinstance(text, str)
                else agrees(final[name], None, text["sha256"])
            ):
                differences.append((record["id"], name))
    assert differences == []
    assert compared > 300
    verdict_counter.add(compared)
