"""Surrogate code points in what models write: no border breaks on them, and what is logged replays
identically.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from players import DONE, SHOP_DOCS, Shop
from stub_endpoint import endpoint
from tiny_models import tiny_tokenizer
from tokenizers_for_text import byte_level

from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.cli.score.score_files import ScoreFile
from fctncalling.data.types import Task
from fctncalling.data.unsafe_text import encodable_text, encodable_value, join_surrogates, json_text
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.evaluation.agents.endpoint import EndpointAgent, EndpointSettings
from fctncalling.lab.text_environment.raw_text import RawTextTemplate

PAIR, LONE = "\ud83d\ude00", "\ud83d"


def test_pairs_are_joined_and_lone_halves_replaced_or_escaped() -> None:
    text = f"a{PAIR}b{LONE}c\ude00\ud83d"
    assert join_surrogates(text) == "a😀b\ud83dc\ude00\ud83d"
    assert encodable_text(text) == "a😀b\ufffdc\ufffd\ufffd"
    assert encodable_value({LONE: (PAIR, 1, [LONE])}) == {"\ufffd": ["😀", 1, ["\ufffd"]]}
    written = json_text({"é": text})
    assert "é" in written
    assert written.encode()
    assert json.loads(written) == {"é": join_surrogates(text)}
    assert json.loads(json_text(LONE)) == LONE


def task() -> Task:
    return Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": f"Shout {LONE}"}]],
        functions=SHOP_DOCS,
        ground_truth=[["look()"]],
        involved_classes=("Shop",),
    )


# In plain ASCII, as JSON writes an emoji; as code points; and in a form that is JSON.
MESSAGES = [
    "[shout(text='Great day \\ud83d\\ude00'), shout(text='half \\ud83d')]",
    f"[shout(text='{PAIR}{LONE}')]",
    '[{"name": "shout", "arguments": {"text": "\\ud83d\\ude00 \\ud83d"}}]',
    '[{"name": "\\ud83d", "arguments": {"\\ud83d": "\\ud83d"}}]',
]


def played(texts: list[str]) -> tuple[list[str], list[Any], FunctionCallingEnv]:
    env = FunctionCallingEnv(tasks=[task()], tools={"Shop": Shop})
    observation, info = env.reset(seed=0)
    told, infos = [observation], [info]
    for text in texts:
        if infos[-1].get("verdict") is not None:
            break
        observation, _, _, _, info = env.step(text)
        told.append(observation)
        infos.append(info)
    return told, infos, env


@pytest.mark.parametrize("message", MESSAGES)
def test_an_episode_with_surrogates_is_shown_encoded_logged_and_replayed(
    message: str, tmp_path: Path
) -> None:
    told, infos, env = played([message, DONE])
    assert not any(info.get("invalid") for info in infos)
    assert infos[-1]["verdict"] is not None
    "".join(told).encode()
    template = ChatTemplate(tiny_tokenizer())
    for info in infos:
        json.dumps(info["messages"], ensure_ascii=False).encode()
        template.render_delta(info["messages"])
    log = RunLog(tmp_path / "run", {}, tensorboard=False)
    row = TokenRecord([1], [True], [True], [0.0], [0.0])
    path = log.write_episodes("one", [EpisodeRecord("t", "c", [row], episode=env.episode)])
    log.close()
    logged = json.loads(path.read_text(encoding="utf-8"))
    again, *_ = played([step["text"] for step in logged["steps"]])
    assert again == told


def test_an_endpoint_that_says_surrogates_is_asked_on() -> None:
    with endpoint(lambda *_: {"role": "assistant", "content": PAIR + LONE}) as stub:
        agent = EndpointAgent(EndpointSettings("m", stub.url, retries=0))
        said = agent.complete([{"role": "user", "content": LONE}])
        agent.complete([{"role": "assistant", "content": said["content"]}])
        agent.close()
    assert [body["messages"][0]["content"] for body in stub.bodies] == ["\ufffd", "😀\ufffd"]


def test_raw_text_and_its_continuation_are_encoded() -> None:
    template = RawTextTemplate(byte_level(bos=False))
    assert template.spell(template.continuation(f" a{PAIR}{LONE}")) == " a😀\ufffd"


def test_a_text_environment_reads_and_shows_surrogates() -> None:
    env = ToolTextEnv(tools={"echo": lambda text: text[::-1] + LONE}, handler="request_call")
    env.reset(seed=0)
    observation, *_ = env.step(f"<request><echo>{PAIR}{LONE}<call>")
    observation.encode()
    *_, info = env.step(f"Result={LONE}<submit>")
    assert info["verdict"] is not None


def test_a_score_file_takes_a_failed_answer_with_surrogates(tmp_path: Path) -> None:
    scores = ScoreFile("m", "simple_python")
    scores.add("simple_python_0", {"id": "simple_python_0", "model_result": f"é{LONE}"})
    scores.close(tmp_path)
    [file] = tmp_path.rglob("*.json")
    assert (
        json.loads(file.read_text(encoding="utf-8").splitlines()[1])["model_result"] == f"é{LONE}"
    )
    scores.discard()
