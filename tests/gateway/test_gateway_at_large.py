"""Many sessions at once, with agents that break off, flood and mix up their keys."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import threading
import time
from typing import Any

import pytest
from gateways import TOOL, RunningGateway, TokenScript, embedded_engine, running_gateway
from tiny_models import CHATML, tiny_tokenizer

from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate

TEMPLATE = ChatTemplate(tiny_tokenizer(CHATML))
EPISODES, AGENTS = 2000, 32
MOST_CPU_MS = 3.0


class Counting(TokenScript):
    """Says another number to every request."""

    def advance(self) -> list[tuple[int, Action]]:
        end = [TEMPLATE.end_of_turn_id]
        for _ in self._asked:
            self.said += 1
            self.answers.append([*TEMPLATE.encode(str(self.said)), *end])
        self.prompts = []
        return super().advance()

    said = 0


def flood(gateway: RunningGateway, over: threading.Event) -> None:
    """Send what no agent would, until it is over."""
    host, port = gateway.server.address.removeprefix("http://").split(":")
    rng = random.Random(0)
    while not over.is_set():
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as sent:
            sent.sendall(rng.randbytes(rng.randrange(1, 3000)))
            sent.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 900000\r\n\r\nhalf")
        time.sleep(0.002)


def episode(gateway: RunningGateway, number: int, sent: dict[str, list[str]]) -> None:
    """Play one episode; every seventh breaks off, every eleventh tries a stranger's key."""
    opened = gateway.client().post("/s", id=f"e{number}")
    client = gateway.client(opened["session"], opened["key"])
    messages: list[Any] = [{"role": "user", "content": f"agent {number}"}]
    answers = sent.setdefault(opened["session"], [])
    for step in range(1 + number % 4):
        messages.append(client.chat(messages)["message"])
        answers.append(messages[-1]["content"])
        messages.append({"role": "user", "content": f"step {step}"})
    if number % 11 == 1:
        stranger = gateway.client(f"e{number - 1}", opened["key"])
        status, _ = stranger.ask("POST", f"{stranger.prefix}/reward", {"reward": 9})
        assert status == 401
    if number % 7:
        client.post("/reward", reward=number, end=True)
    client.close()


@pytest.mark.prove
def test_no_episode_is_lost_mixed_or_counted_twice() -> None:
    sent: dict[str, list[str]] = {}
    numbers, over = iter(range(EPISODES)), threading.Event()
    lock = threading.Lock()
    with running_gateway(Counting(), TEMPLATE, 32, max_sessions=EPISODES) as gateway:

        def agent() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                episode(gateway, number, sent)

        noise = threading.Thread(target=flood, args=(gateway, over))
        agents = [threading.Thread(target=agent) for _ in range(AGENTS)]
        for thread in (noise, *agents):
            thread.start()
        for thread in agents:
            thread.join()
        over.set()
        noise.join()
        gateway.gateway.close()
    assert sorted(session.id for session in gateway.ended) == sorted(sent)
    assert len(sent) == EPISODES
    said = [text for texts in sent.values() for text in texts]
    assert len(said) == len(set(said))
    for session in gateway.ended:
        number = int(session.id[1:])
        assert session.texts == sent[session.id]
        record = session.to_record()
        assert record.invalid == (number % 7 == 0)
        assert record.episode_return == (number if number % 7 else 0.0)
        [row] = record.rows
        assert TEMPLATE.spell(row.ids).count(f"agent {number}<") == 1
        assert sum(row.ends_action) == 1 + number % 4


@pytest.mark.prove
def test_a_call_costs_the_server_little_beside_sampling() -> None:
    """CPU of the process with client and server, less the client's thread and the engine's."""
    engine, template = embedded_engine()
    ask = {"role": "user", "content": "please create a ticket called laptop with priority 3"}
    calls, client_cpu, sampling_cpu = 400, 0.0, 0.0
    run = engine.advance

    def advance() -> list[tuple[int, Action]]:
        nonlocal sampling_cpu
        started = time.thread_time()
        found = run()
        sampling_cpu += time.thread_time() - started
        return found

    engine.advance = advance  # type: ignore[method-assign]
    with running_gateway(engine, template, max_episode_tokens=2000) as gateway:
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.thread_time()
        for session in range(calls // 8):
            client, messages = gateway.client(f"s{session}"), [ask]
            for _ in range(8):
                messages += [client.chat(messages, tools=[TOOL])["message"], ask]
            client.close()
        client_cpu = time.thread_time() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    per_call = (whole - client_cpu - sampling_cpu) / calls * 1e3
    print(f"{per_call:.2f} CPU-ms a call beside {sampling_cpu / calls * 1e3:.2f} of sampling")
    assert per_call < MOST_CPU_MS
