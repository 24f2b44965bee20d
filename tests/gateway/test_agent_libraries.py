"""The examples run with the real libraries, unchanged: what they send back is what was sampled.

FCTNCALLING_AGENTS_PYTHON names a Python that has them, by default this one; what it lacks is
skipped by name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateways import RunningGateway, TokenScript, running_gateway
from tiny_models import CHATML, tiny_tokenizer

from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call
from fctncalling.envs.handlers import get_handler

EXAMPLES = Path(__file__).parents[2] / "examples/gateway"
PYTHON = os.environ.get("FCTNCALLING_AGENTS_PYTHON", sys.executable)
UNMERGED = ("name", "ar", "gu", "call", "ticket", '":')
TEMPLATE = ChatTemplate(tiny_tokenizer(CHATML, UNMERGED))
TWO_CALLS = get_handler("hermes_calls").render(
    [
        Call("create_ticket", {"title": 'läptop 🙂\n"x"', "priority": 3}),
        Call("create_ticket", {"title": "zwei", "priority": 4}),
    ]
)
TEXTS = (TWO_CALLS, '[create_ticket(priority=1, title="漢字 é")]', "done")
TASK = {
    "id": "t",
    "messages": [{"role": "user", "content": "two tickets, please"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "create_ticket",
                "description": "Create a ticket.",
                "parameters": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}, "priority": {"type": "integer"}},
                    "required": ["title", "priority"],
                },
            },
        }
    ],
}


class ThirdTimeDone(TokenScript):
    """Calls twice, then once, then is done; by how often it has spoken in a prompt."""

    def advance(self) -> list[tuple[int, Action]]:
        for request in self._asked:
            text = TEMPLATE.spell(self._held[request.slot])
            spoken = min(2, text.count("<|im_start|>assistant") - 1)
            self.answers.append([*with_unmerged(TEXTS[spoken]), TEMPLATE.end_of_turn_id])
        return super().advance()


def with_unmerged(text: str) -> list[int]:
    """Return ids of a text that its encoding lacks."""
    ids, at = list[int](), 0
    while at < len(text):
        piece = next((each for each in UNMERGED if text.startswith(each, at)), "")
        known = TEMPLATE.tokenizer.convert_tokens_to_ids(piece) if piece else 0
        ids += [known] if piece else TEMPLATE.encode(text[at])
        at += max(1, len(piece))
    return ids


def need(module: str) -> None:
    done = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"needs {module}: FCTNCALLING_AGENTS_PYTHON names a Python that has it")


def run(command: list[str], lines: str = "", **environment: str) -> str:
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command,
        input=lines,
        capture_output=True,
        text=True,
        timeout=120,
        env={**plain, "NO_PROXY": "127.0.0.1", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def gateway() -> Any:
    with running_gateway(ThirdTimeDone(), TEMPLATE, max_episode_tokens=50_000) as found:
        yield found


@pytest.mark.prove
@pytest.mark.parametrize(
    ("example", "module"),
    [("openai_agent", "openai"), ("langgraph_agent", "langgraph"), ("agents_sdk_agent", "agents")],
)
def test_an_agent_sends_back_what_was_sampled(
    example: str, module: str, gateway: RunningGateway
) -> None:
    need(module)
    opened = [gateway.client().post("/s") for _ in range(2)]
    offers = [
        {
            "session": each["session"],
            "base_url": each["base_url"],
            "api_key": each["key"],
            "task": TASK,
        }
        for each in opened
    ]
    told = run(
        [PYTHON, str(EXAMPLES / f"{example}.py")],
        "".join(json.dumps(offer) + "\n" for offer in offers),
    )
    assert [json.loads(line)["session"] for line in told.splitlines()] == [
        each["session"] for each in opened
    ]
    for each in opened:
        session = gateway.session(each["session"])
        [row] = session.to_record().rows
        assert session.drift == []
        assert session.texts == list(TEXTS)
        trained = [token for token, own in zip(row.ids, row.acted, strict=True) if own]
        assert trained == [token for action in session.forest.actions for token in action.ids]


@pytest.mark.prove
def test_smolagents_rewords_its_history_and_the_report_says_so(gateway: RunningGateway) -> None:
    need("smolagents")
    run([PYTHON, str(EXAMPLES / "smolagents_agent.py"), f"{gateway.server.address}/s/first/v1"])
    [session] = gateway.ended
    record = session.to_record()
    assert not record.invalid
    assert len(record.rows) == record.num_steps > 1
    assert session.drift[0].kind == "edited"
    assert "Calling tools" in session.drift[0].why


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_shell_script_is_an_agent(gateway: RunningGateway) -> None:
    run(["sh", str(EXAMPLES / "curl_agent.sh"), f"{gateway.server.address}/s/first/v1"])
    [session] = gateway.ended
    assert session.to_record().episode_return == 1.0
