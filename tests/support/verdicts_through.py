"""Print, as JSON, the verdicts that the answers of `integration_answers` get through one library.

PYTHON_OF_THE_LIBRARY tests/support/verdicts_through.py verifiers
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import random
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile, zip_longest
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from integration_answers import ScriptedAnswer, answers, answers_to, chat_messages, valid

from fctncalling import Task, embedded_path, opening, score
from fctncalling.envs.errors import InfrastructureError

Verdicts = list[bool]
ANSWERS = answers()
TASKS = [answer.task for answer in ANSWERS]
MESSAGES = {answer.task.id: chat_messages(answer, "tool_call") for answer in ANSWERS}


def through_score() -> Verdicts:
    """Both forms of each answer agree, or the list is empty."""
    called = [score(MESSAGES[answer.task.id], answer.task).valid for answer in ANSWERS]
    prompted = [score(chat_messages(each, "prompting"), each.task).valid for each in ANSWERS]
    return called if called == prompted else []


def through_trl() -> Verdicts:
    """The reward function of GRPOTrainer, with TRL's form of calls: arguments as objects."""
    import trl  # noqa: F401  # the library is there

    from fctncalling.lab.integrations.trl import reward_func

    ids = [task.id for task in TASKS]
    rewards = reward_func(TASKS)(completions=[MESSAGES[each] for each in ids], task_id=ids)
    return [reward == 1.0 for reward in rewards]


def through_inspect() -> Verdicts:
    """A whole evaluation, the model a script of tool calls as Inspect's providers parse them."""
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.model._call_tools import parse_tool_call
    from inspect_ai.solver._task_state import sample_state

    from fctncalling.lab.integrations.inspect_ai import inspect_task

    def answer(messages: list[Any], tools: list[Any], *_: Any) -> ModelOutput:
        script = MESSAGES[str(sample_state().sample_id)]
        said = script[sum(each.role == "assistant" for each in messages)]
        output = ModelOutput.from_content("mockllm/model", said["content"] or "")
        output.usage = ModelUsage()
        output.choices[0].message.tool_calls = [
            parse_tool_call(each["id"], *each["function"].values(), tools)
            for each in said.get("tool_calls", ())
        ] or None
        return output

    model = get_model("mockllm/model", custom_outputs=answer)
    with tempfile.TemporaryDirectory() as folder:
        [log] = evaluate(inspect_task(TASKS), model=model, log_dir=folder, display="none")
        values = {each.id: next(iter(each.scores.values())).value for each in log.samples}
    return [values[task.id] == "C" for task in TASKS]


def through_openenv() -> Verdicts:
    """A server and OpenEnv's client."""
    import socket

    import uvicorn

    from fctncalling.lab.integrations.openenv import ChatAction, ChatClient, openenv_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(openenv_app(TASKS), port=port, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    verdicts = []
    with ChatClient(base_url=f"http://127.0.0.1:{port}").sync() as client:
        for task in TASKS:
            result = client.reset(task_id=task.id)
            for message in MESSAGES[task.id]:
                if not result.done:
                    fields = ("content", "tool_calls")
                    said = {key: message[key] for key in fields if key in message}
                    result = client.step(ChatAction(**said))
            verdicts.append(result.observation.info["verdict"]["valid"])
    return verdicts


def through_openrlhf() -> Verdicts:
    """OpenRLHF's executor, with a script in vLLM's place and calls in the text."""
    openrlhf_agent = example("openrlhf_agent")  # imports the part that needs no GPU

    from fctncalling.lab.integrations.openrlhf import agent_instance, dataset_rows

    tokenizer = openrlhf_agent.AutoTokenizer.from_pretrained(embedded_path("model"))
    executor = openrlhf_agent.MultiTurnAgentExecutor(agent_instance(TASKS, tokenizer))
    sampling = SimpleNamespace(max_tokens=512, logprobs=None)
    verdicts = []
    for answer, row in zip(ANSWERS, dataset_rows(TASKS, tokenizer), strict=True):
        engine = openrlhf_agent.ScriptedEngine(answer.task, tokenizer)
        engine._texts = [each["content"] for each in chat_messages(answer, "prompting")]
        played = asyncio.run(
            executor.execute(row["prompt"], row["label"], sampling, 100_000, tokenizer, engine)
        )
        verdicts.append(bool(played["reward"] == 1.0))
    return verdicts


def traces_of_verifiers(
    tasks: Sequence[Task], agent: Mapping[str, Any], **keywords: Any
) -> list[Any]:
    """Return the traces of an evaluation on tasks that all begin differently, the model a script
    behind an endpoint.
    """
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    from fctncalling.lab.integrations.verifiers import plugins

    sys.modules["answered_tasks"] = module = ModuleType("answered_tasks")
    module.__all__ = ["Tasks", "Player", "Episode"]
    module.Tasks, module.Player, module.Episode = plugins(tasks, **keywords)
    scripts = {_beginning(opening(task).messages): MESSAGES[task.id] for task in tasks}
    with tempfile.TemporaryDirectory() as folder:
        config = EvalConfig(
            env={"taskset": {"id": "answered_tasks"}, "agent": agent},
            model="script",
            client={"base_url": serve(scripts), "api_key_var": "KEY"},
            max_concurrent=4,
            push=False,
            rich=None,
            output_dir=folder,
        )
        episodes = asyncio.run(run_eval(config))
    return [trace for episode in episodes for trace in episode.traces]


def through_verifiers() -> Verdicts:
    """Whole evaluations."""
    verdicts: dict[str, bool] = {}
    for tasks in _begun_differently():
        for trace in traces_of_verifiers(tasks, {}):
            assert trace.reward == trace.metrics["valid"]
            verdicts[trace.task.data.id] = trace.metrics["valid"] == 1.0
    return [verdicts[task.id] for task in TASKS]


def through_limits_of_verifiers() -> list[Any]:
    """What ended an episode, and its rewards: one message was allowed; the tools failed."""

    def broken(*_: Any) -> str:
        raise InfrastructureError("the user is gone")

    tasks = [task for task in TASKS if len(MESSAGES[task.id]) > 2][:1]
    [limited] = traces_of_verifiers(tasks, {"max_turns": 1})
    [failed] = traces_of_verifiers(tasks, {}, user=broken)
    return [
        [trace.ok, trace.stop_condition, [each.value for each in trace.rewards.values()]]
        for trace in (limited, failed)
    ]


def through_nemo() -> Verdicts:
    """The server class, given responses of NeMo Gym's own type; calls in the text."""
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.openai_utils import NeMoGymResponse
    from nemo_gym.server_utils import BaseServerConfig, ServerClient
    from omegaconf import OmegaConf

    from fctncalling.lab.integrations.nemo_gym import dataset_rows, resources_server

    where = {"host": "127.0.0.1", "port": 1}
    client = ServerClient(
        head_server_config=BaseServerConfig(**where), global_config_dict=OmegaConf.create({})
    )
    server = resources_server(TASKS, "prompting")(
        config=BaseResourcesServerConfig(name="tasks", entrypoint="app.py", **where),
        server_client=client,
    )

    async def play(answer: ScriptedAnswer, row: Mapping[str, Any]) -> bool:
        await server.reset(row, "one")
        for message in chat_messages(answer, "prompting"):
            content = [{"type": "output_text", "text": message["content"], "annotations": []}]
            output = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
            made = {"id": "r", "object": "response", "created_at": 0, "model": "script"}
            given = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
            response = NeMoGymResponse(output=[{**output, "content": content}], **made, **given)
            _, reward, done, _, info = await server.step(response, row, "one")
            if done:
                assert reward == float(info["verdict"]["valid"])
                return bool(info["verdict"]["valid"])
        raise AssertionError(f"{answer.task.id} did not end")

    rows = dataset_rows(TASKS, "prompting")
    return [asyncio.run(play(answer, row)) for answer, row in zip(ANSWERS, rows, strict=True)]


def through_openai() -> Verdicts:
    """`play` with OpenAI's client and `aplay` with its asynchronous one, over HTTP."""
    from openai import AsyncOpenAI, OpenAI

    from fctncalling import aplay, play

    async def together(tasks: Sequence[Task], client: Any) -> list[bool]:
        played = await asyncio.gather(*(aplay(task, client, "script") for task in tasks))
        return [each.verdict.valid for each in played]

    verdicts: dict[str, bool] = {}
    for tasks in _begun_differently():
        scripts = {_beginning(opening(task).messages): MESSAGES[task.id] for task in tasks}
        where = {"base_url": serve(scripts), "api_key": "none"}
        alone = [play(task, OpenAI(**where), "script").verdict.valid for task in tasks]
        assert alone == asyncio.run(together(tasks, AsyncOpenAI(**where)))
        verdicts |= dict(zip((task.id for task in tasks), alone, strict=True))
    return [verdicts[task.id] for task in TASKS]


def through_skyrl() -> Verdicts:
    """Environments made by SkyRL-Gym's registry from rows; calls in the text."""
    from skyrl_gym.envs.registration import register

    from fctncalling.lab.integrations.skyrl import dataset_rows, text_env

    register(id="bfcl", entry_point=text_env(TASKS))
    play = example("skyrl_env").play
    verdicts = []
    for answer, row in zip(ANSWERS, dataset_rows(TASKS, "bfcl"), strict=True):
        texts = [each["content"] for each in chat_messages(answer, "prompting")]
        reward, verdict = play(row, texts)
        assert reward == float(verdict)
        verdicts.append(bool(verdict))
    return verdicts


def through_lmeval() -> list[list[Any]]:
    """A whole evaluation of forged tasks of one turn: [category, through the harness, ours]."""
    from fctncalling import load_tasks
    from fctncalling.cli.command import main

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/forged.jsonl"
        words = ["forge", "--num_tasks", "80", "--output", file, "--category", *ONE_TURN]
        with contextlib.redirect_stdout(None):
            main(words)
        tasks = load_tasks(file)
        (Path(folder) / "lmeval.py").write_text(
            "from fctncalling import load_tasks\n"
            "from fctncalling.lab.integrations.lm_eval import harness_task\n"
            f"Bfcl = harness_task(load_tasks({file!r}))\n"
        )
        (Path(folder) / "bfcl.yaml").write_text("task: bfcl\nclass: !function lmeval.Bfcl\n")
        given = answers_to(tasks, random.Random(0))
        texts = {each.task.id: chat_messages(each, "prompting")[0]["content"] for each in given}
        samples = example("lmeval_tasks").evaluate(folder, texts)["samples"]["bfcl"]
    found = {each["doc"]["id"]: bool(each["valid"]) for each in samples}
    return [[a.task.category, found[a.task.id], valid(a, "prompting")] for a in given]


def through_harbor() -> Verdicts:
    """Jobs of Harbor whose oracle says what the answers do: every fourth, as a trial takes a
    second.
    """
    from fctncalling.lab.integrations.harbor import write_tasks

    some = ANSWERS[::4]
    with tempfile.TemporaryDirectory() as folder:
        written = write_tasks([answer.task for answer in some], f"{folder}/tasks")
        for answer, home in zip(some, written, strict=True):
            texts = [each["content"] for each in chat_messages(answer, "prompting")]
            said = " ".join(shlex.quote(text) for text in texts)
            (home / "solution/solve.sh").write_text(f"#!/bin/bash\nepisode {said}\n")
        found = example("harbor_tasks").rewards(Path(folder, "tasks"), Path(folder, "jobs"))
    return [found[answer.task.id.lower()] == 1.0 for answer in some]


ONE_TURN = (
    *("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_relevance"),
)


def example(name: str) -> Any:
    """Return the module of an example."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/integrations"))
    return importlib.import_module(name)


def _begun_differently() -> list[list[Task]]:
    """Return the tasks in lists in which no two begin alike."""
    alike: dict[str, list[Task]] = {}
    for task in TASKS:
        alike.setdefault(_beginning(opening(task).messages), []).append(task)
    return [[task for task in tasks if task] for tasks in zip_longest(*alike.values())]


def _beginning(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the messages before the first one of the model, as a key."""
    begun = takewhile(lambda each: each["role"] != "assistant", messages)
    return json.dumps([[each["role"], each["content"]] for each in begun])


def serve(scripts: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Serve OpenAI's chat interface, a script for each beginning; return its URL."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = json.loads(body)["messages"]
            said = sum(each["role"] == "assistant" for each in asked)
            message = scripts[_beginning(asked)][said]
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            about = {"id": "1", "object": "chat.completion", "created": 0, "model": "script"}
            choices = [{"index": 0, "message": message, "finish_reason": finish}]
            body = json.dumps({**about, "choices": choices}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    verdicts = globals()[f"through_{sys.argv[1]}"]()
    print(json.dumps(verdicts))
