"""The server speaks OpenAI's language, keeps sessions apart, and is not brought down."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

import pytest
from gateways import TOOL, GatewayClient, RunningGateway, TokenScript, running_gateway
from tiny_models import CHATML, tiny_tokenizer

from fctncalling.algorithms.generation.engine_api import Action
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.lab.gateway import gateway_server
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.gateway_server import LEAST_BODY_BYTES, GatewayServer
from fctncalling.lab.gateway.sampler import Sampler

TEMPLATE = ChatTemplate(tiny_tokenizer(CHATML))
HELLO = [{"role": "user", "content": "hello"}]
CALLS = '[f(a="é🙂"), f(a="2")]'


class Parrot(TokenScript):
    """Says one text to all, as long as the request allows."""

    text = "word"

    def advance(self) -> list[tuple[int, Action]]:
        ids = [*TEMPLATE.encode(self.text), TEMPLATE.end_of_turn_id]
        self.answers = [list(ids) for _ in self._asked]
        finished = super().advance()
        self.prompts = []
        return finished


@pytest.fixture
def gateway() -> Any:
    with running_gateway(Parrot(), TEMPLATE, max_episode_tokens=2000, max_sessions=40) as found:
        yield found


@pytest.fixture
def calling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parrot, "text", CALLS)


def error_of(client: GatewayClient, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    status, answer = client.ask("POST", path, body, **headers)
    assert set(answer) == {"error"}, answer
    assert {"message", "type", "param", "code"} == set(answer["error"])
    assert "\n" not in answer["error"]["message"]
    return status, answer["error"]


def events(client: GatewayClient, **fields: Any) -> list[Any]:
    """Return the events of a stream."""
    body = json.dumps({"messages": HELLO, "stream": True, **fields}).encode()
    client._connection.request("POST", f"{client.prefix}/v1/chat/completions", body)
    text = client._connection.getresponse().read().decode()
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def raw_lines(gateway: RunningGateway, body: Any) -> list[str]:
    """Return the lines that answer a request of a stream of raw text."""
    connection = gateway.client("a")._connection
    connection.request("POST", "/s/a/v1/completions", json.dumps(body).encode())
    return [line for line in connection.getresponse().read().decode().split("\n\n") if line]


def test_an_answer_has_openais_form(gateway: RunningGateway) -> None:
    body = {"messages": HELLO, "logprobs": True, "return_token_ids": True, "model": "any"}
    answer = gateway.client("a").post("/v1/chat/completions", **body)
    assert answer["object"] == "chat.completion"
    [choice] = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "word"}
    assert choice["finish_reason"] == "stop"
    assert [each["token"] for each in choice["logprobs"]["content"]][:2] == ["w", "o"]
    assert len(choice["token_ids"]) == answer["usage"]["completion_tokens"] == 5
    assert gateway.client().ask("GET", "/v1/models")[1]["data"][0]["id"] == "policy"
    raw = gateway.client("a").post("/v1/completions", prompt="once", max_tokens=9, logprobs=1)
    assert raw["choices"][0]["text"] == "word"


@pytest.mark.usefixtures("calling")
def test_calls_are_read_where_tools_are_offered_and_not_refused(gateway: RunningGateway) -> None:
    client = gateway.client("a")
    message = client.chat(HELLO, tools=[TOOL])["message"]
    assert message["content"] is None
    arguments = [json.loads(each["function"]["arguments"]) for each in message["tool_calls"]]
    assert arguments == [{"a": "é🙂"}, {"a": "2"}]
    assert len({each["id"] for each in message["tool_calls"]}) == 2
    assert client.chat(HELLO, tools=[TOOL], tool_choice="none")["message"]["content"] == CALLS
    assert client.chat(HELLO)["message"]["content"] == CALLS


def test_a_stream_spells_what_the_answer_says(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Parrot, "text", "ein é und 🙂 STOP more")
    chunks = events(gateway.client("a"), stop=["STOP"], stream_options={"include_usage": True})
    deltas = [each["choices"][0]["delta"] for each in chunks if each["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert len(deltas) > 5
    assert "\ufffd" not in "".join(each.get("content") or "" for each in deltas)
    assert chunks[-1]["usage"]["completion_tokens"] > 10
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.usefixtures("calling")
def test_a_stream_with_calls_has_them_in_one_piece(gateway: RunningGateway) -> None:
    chunks = events(gateway.client("a"), tools=[TOOL])
    assert [len(each["choices"][0]["delta"].get("tool_calls", ())) for each in chunks] == [2, 0]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_raw_stream_has_the_log_probabilities_that_were_asked_for(
    gateway: RunningGateway,
) -> None:
    body = {
        "prompt": "once",
        "stream": True,
        "logprobs": 1,
        "stream_options": {"include_usage": True},
    }
    chunks = [json.loads(line[6:]) for line in raw_lines(gateway, body)[:-1]]
    assert chunks[0]["choices"][0]["logprobs"]["token_logprobs"][:2] == [-0.5, -1.5]
    assert chunks[-1]["usage"]["completion_tokens"] == 5


def test_tools_may_leave_out_what_openais_may(gateway: RunningGateway) -> None:
    whole = {"name": "f", "description": "", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": each} for each in (whole, {"name": "f"})]
    for tool in tools:
        gateway.client("a").chat(HELLO, tools=[tool])
    contexts = [action.context for action in gateway.session("a").forest.actions]
    assert contexts[0] == contexts[1]


def test_halves_of_a_surrogate_pair_are_replaced_wherever_they_stand(
    gateway: RunningGateway,
) -> None:
    half = "\ud800"
    tool = {"type": "function", "function": {"name": half, "description": half}}
    gateway.client("a").chat([{"role": "user", "content": half}], tools=[tool], stop=[half])
    gateway.client("a").post("/v1/completions", prompt=half)
    spelled = TEMPLATE.spell(gateway.session("a").forest.actions[0].context)
    assert spelled.count("\ufffd") == 3


BAD_BODIES: dict[str, Any] = {
    "no JSON": b"{",
    "no object": b"[]",
    "deep": b"[" * 100_000,
    "no messages": {},
    "empty": {"messages": []},
    "no message": {"messages": ["x"]},
    "role": {"messages": [{"role": "king", "content": "x"}]},
    "content": {"messages": [{"role": "user", "content": 5}]},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    "calls": {"messages": [{"role": "assistant", "tool_calls": [5]}]},
    "tools": {"messages": HELLO, "tools": [{"name": "f"}]},
    "tool_choice": {"messages": HELLO, "tool_choice": "maybe"},
    "tool_choice required": {"messages": HELLO, "tools": [TOOL], "tool_choice": "required"},
    "tool_choice named": {
        "messages": HELLO,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    },
    "n": {"messages": HELLO, "n": 10**9},
    "n true": {"messages": HELLO, "n": True},
    "temperature": {"messages": HELLO, "temperature": "hot"},
    "negative": {"messages": HELLO, "temperature": -1},
    "max_tokens": {"messages": HELLO, "max_tokens": 0},
    "stop": {"messages": HELLO, "stop": [""]},
    "stops": {"messages": HELLO, "stop": ["x"] * 99},
    "top_logprobs": {"messages": HELLO, "logprobs": True, "top_logprobs": 5},
    "stream": {"messages": HELLO, "stream": "yes"},
    "not finite": b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
}


def test_bad_bodies_are_refused_in_one_line_and_harm_nothing(gateway: RunningGateway) -> None:
    client = gateway.client("a")
    for what, body in BAD_BODIES.items():
        status, _ = error_of(client, "/s/a/v1/chat/completions", body)
        assert status == 400, what
    for prompt in ("", [], [10**9], [-1], ["a", "b"], 5):
        assert error_of(client, "/s/a/v1/completions", {"prompt": prompt})[0] == 400
    long = {"messages": [{"role": "user", "content": "x" * 5000}]}
    status, error = error_of(client, "/s/a/v1/chat/completions", long)
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert client.chat(HELLO)["message"]["content"] == "word"
    assert gateway.session("a").num_requests == 1


def test_bodies_and_paths_are_bounded(gateway: RunningGateway) -> None:
    host, port = gateway.server.address.removeprefix("http://").split(":")
    for head, status in (
        (f"Content-Length: {LEAST_BODY_BYTES + 1}", b" 413 "),  # the context is short here
        ("Content-Length: -5", b" 411 "),
        ("Transfer-Encoding: chunked", b" 411 "),
        ("Content-Length: 5\r\nContent-Length: 5", b" 411 "),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", b" 411 "),
        (f"Content-Length: {'9' * 5000}", b" 413 "),
        (f"X: {'x' * 70_000}", b" 431 "),
    ):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(f"POST /v1/completions HTTP/1.1\r\n{head}\r\n\r\n".encode())
            assert status in connection.recv(1000), head
    status, error = error_of(gateway.client(), "/v1/completions", b" " * 3_000_000)
    assert (status, "shorten it" in error["message"]) == (413, True)
    for method in ("PUT", "OPTIONS"):
        status, answer = gateway.client().ask(method, "/v1/completions")
        assert (status, answer["error"]["type"]) == (501, "invalid_request_error")
    assert error_of(gateway.client(), "/v1/responses", {"input": "x"})[0] == 404
    assert error_of(gateway.client(), "/s/%2e%2e%2f/v1/completions", {"prompt": "x"})[0] == 400
    assert error_of(gateway.client(), "/s", {"id": "a" * 65})[0] == 400


HIDDEN = b'POST /s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"id": "evil"}'


@pytest.mark.parametrize(
    "head",
    [
        "POST /s HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example",
        "GET /health HTTP/1.1",
    ],
)
def test_a_body_is_never_taken_for_the_next_request(gateway: RunningGateway, head: str) -> None:
    host, port = gateway.server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"{head}\r\nContent-Length: {len(HIDDEN)}\r\n\r\n".encode() + HIDDEN)
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read().count(b"HTTP/1.1 ") == 1
    assert gateway.gateway.sessions == {}


def test_a_body_shorter_than_its_length_is_not_answered(gateway: RunningGateway) -> None:
    host, port = gateway.server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b'POST /s HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"id": "a"}')
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1000) == b""
    assert gateway.gateway.sessions == {}


def test_half_open_connections_shut_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_server, "MAX_CONNECTIONS", 4)
    with running_gateway(Parrot(), TEMPLATE) as gateway, contextlib.ExitStack() as stack:
        host, port = gateway.server.address.removeprefix("http://").split(":")
        for start in [b"", b"POST /s HT", b"POST /s HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"] * 3:
            half_open = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            half_open.sendall(start)
        assert gateway.client("a").chat(HELLO)["message"]["content"] == "word"


def test_a_client_that_drips_is_hung_up_on(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_server, "RECEIVE_S", 0.3)
    host, port = gateway.server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=0.05) as drip:
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                drip.sendall(b"x")
                if not drip.recv(9):
                    return
    pytest.fail("the connection stood for 10 s")


def test_a_client_that_asks_first_sends_its_body_at_once(gateway: RunningGateway) -> None:
    host, port = gateway.server.address.removeprefix("http://").split(":")
    head = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        assert b" 100 " in connection.recv(1000)
        connection.sendall(b'{"prompt": "x", "max_tokens":5}'[:30])
        assert b" 400 " in connection.recv(1000)


def test_a_fault_of_the_server_costs_a_request_alone(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Parrot, "advance", lambda self: 1 / 0)
        status, error = error_of(
            gateway.client("a"), "/s/a/v1/chat/completions", {"messages": HELLO}
        )
        assert status == 503
        assert "ZeroDivisionError" in error["message"]
        patched.setattr(gateway.gateway.form, "instructions", lambda tools: {}["x"])
        status, error = error_of(
            gateway.client("a"), "/s/a/v1/chat/completions", {"messages": HELLO}
        )
        assert (status, error["type"]) == (500, "server_error")
    assert gateway.client("a").chat(HELLO)["message"]["content"] == "word"


def test_a_page_of_another_site_is_refused(gateway: RunningGateway) -> None:
    body = {"messages": HELLO}
    for name, value in (("Host", "evil.example"), ("Origin", "https://evil.example")):
        status, _ = error_of(gateway.client(), "/v1/chat/completions", body, **{name: value})
        assert status == 403
    status, _ = gateway.client().ask(
        "POST", "/v1/chat/completions", body, Origin="http://localhost:3000"
    )
    assert status == 200


def test_a_key_opens_its_own_session_alone(gateway: RunningGateway) -> None:
    opened = [gateway.client().post("/s") for _ in range(2)]
    for one, other in (opened, reversed(opened)):
        own = gateway.client(one["session"], one["key"])
        assert own.chat(HELLO)["message"]["content"] == "word"
        for key in ("", other["key"], one["key"][:-1]):
            client = gateway.client(one["session"], key)
            for path in ("/v1/chat/completions", "/reward", "/end"):
                status, _ = error_of(client, client.prefix + path, {"messages": HELLO, "reward": 1})
                assert status == 401
            assert client.ask("GET", client.prefix)[0] == 401
    report = own.ask("GET", own.prefix)[1]
    assert (report["requests"], report["reward"]) == (1, None)


def test_other_addresses_than_loopback_want_a_token() -> None:
    gateway = Gateway(TEMPLATE, Sampler(1), GatewaySettings())
    with pytest.raises(ValueError, match=r"--host 0\.0\.0\.0: .* give --token"):
        GatewayServer(gateway, "0.0.0.0")
    with running_gateway(Parrot(), TEMPLATE, token="secret") as guarded:
        assert error_of(guarded.client(), "/s", {})[0] == 401
        assert error_of(guarded.client(key="guess"), "/v1/completions", {"prompt": "x"})[0] == 401
        opened = guarded.client(key="secret").post("/s")
        own = guarded.client(opened["session"], opened["key"])
        assert own.chat(HELLO)["message"]["content"] == "word"


def test_a_session_without_a_reward_is_invalid_and_never_zero(gateway: RunningGateway) -> None:
    for session in ("none", "asked", "paid", "failed"):
        client = gateway.client(session)
        client.ask(
            "POST",
            f"/s/{session}/v1/chat/completions",
            {} if session == "none" else {"messages": HELLO},
        )
    gateway.gateway.open("", "unused")
    assert gateway.client("paid").post("/reward", reward=0.25, end=True)["reward"] == 0.25
    assert gateway.client("asked").post("/end") == gateway.client("asked").post("/end")
    gateway.client("failed").post("/end", invalid="the shop was closed")
    gateway.client("unused").post("/end")
    gateway.gateway.expire(time.monotonic() + 10**6)
    reasons = {session.id: session.invalid_reason for session in gateway.ended}
    assert reasons["paid"] == ""
    assert reasons["asked"] == "no reward was given"
    assert reasons["failed"] == "the shop was closed"
    assert reasons["unused"] == "the agent asked for no completion"
    records = {session.id: session.to_record() for session in gateway.ended}
    assert records["paid"].episode_return == 0.25
    assert all(record.invalid for name, record in records.items() if name != "paid")
    status, error = error_of(gateway.client(), "/s/paid/v1/chat/completions", {"messages": HELLO})
    assert status == 410  # a client that is told 409 tries again
    assert "has ended" in error["message"]


def test_a_session_that_is_left_alone_ends(gateway: RunningGateway) -> None:
    gateway.client("a").chat(HELLO)
    gateway.client("a").post("/reward", reward=1)
    gateway.gateway.expire(time.monotonic() + 10**6)
    [session] = gateway.ended
    assert session.invalid_reason == "no request for 900 s"


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (lambda messages, rows: len(rows) + len(messages), ""),
        (lambda messages, rows: 1 / 0, "the reward function raised ZeroDivisionError"),
        (lambda messages, rows: float("nan"), "the reward function returned nan"),
    ],
)
def test_a_function_scores_what_got_no_reward(score: Any, reason: str) -> None:
    with running_gateway(Parrot(), TEMPLATE, score=score) as gateway:
        gateway.client("a").chat(HELLO)
        gateway.client("a").post("/end")
        [session] = gateway.ended
    assert session.invalid_reason.startswith(reason)
    assert session.to_record().invalid == bool(reason)
    assert reason or session.to_record().episode_return == 3.0


def test_rewards_are_numbers_behind_an_action(gateway: RunningGateway) -> None:
    client = gateway.client("a")
    client.chat(HELLO)
    for reward in (None, "1", True, float("nan"), 10**400):
        assert error_of(client, "/s/a/reward", {"reward": reward})[0] == 400
    opened = gateway.client().post("/s", id="b")
    status, _ = error_of(gateway.client("b", opened["key"]), "/s/b/reward", {"reward": 1})
    assert status == 400


def test_what_would_change_the_distribution_is_told(gateway: RunningGateway) -> None:
    client = gateway.client("a")
    client.chat(HELLO, tools=[TOOL], top_p=0.9, presence_penalty=0, parallel_tool_calls=False)
    assert client.ask("GET", "/s/a")[1]["ignored"] == {"top_p": 1, "parallel_tool_calls": 1}


def test_sessions_and_connections_are_bounded(gateway: RunningGateway) -> None:
    for number in range(40):
        gateway.gateway.open("", f"s{number}")
    assert error_of(gateway.client(), "/v1/completions", {"prompt": "x"})[0] == 429


def test_refused_requests_leave_no_session_behind(gateway: RunningGateway) -> None:
    client = gateway.client()
    far_too_long = {"prompt": [1] * 2001}
    refused = [{"bad": 1}, {"messages": []}, {"prompt": [10**9]}, far_too_long]
    for number in range(41):  # more than may be open at once
        for body, kind in zip(refused, ("chat/", "chat/", "", ""), strict=True):
            status, _ = client.ask("POST", f"/s/x{number}/v1/{kind}completions", body)
            assert status == 400
    assert gateway.gateway.sessions == {}
    gateway.client("x0").chat(HELLO)
    assert error_of(gateway.client("x0"), "/v1/completions", far_too_long)[0] == 400
    assert list(gateway.gateway.sessions) == ["x0"]  # one with an action stays
    assert gateway.ended == []


def test_sessions_side_by_side_are_not_mixed(gateway: RunningGateway) -> None:
    def agent(number: int) -> None:
        client = gateway.client(f"n{number}")
        messages: list[Any] = [{"role": "user", "content": f"agent {number}"}]
        for step in range(5):
            messages.append(client.chat(messages)["message"])
            messages.append({"role": "user", "content": f"{number} step {step}"})
        client.post("/reward", reward=number, end=True)

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gateway.ended) == 32
    for session in gateway.ended:
        record = session.to_record()
        [row] = record.rows
        assert record.episode_return == int(session.id[1:])
        assert f"agent {session.id[1:]}<" in TEMPLATE.spell(row.ids)
        assert sum(row.ends_action) == 5
