"""An endpoint that misbehaves costs an episode at most, in bounded time, and learns or tells
nothing.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from stub_endpoint import endpoint, error, raw
from test_run import MULTI, call_reply, dataset, lines, right_answer, run, said

from evaluate_fctncalling import main
from fctncalling.algorithms.vllm.client import ServerAwayError, VllmClient
from fctncalling.data import http_client
from fctncalling.envs.users.language_model_user import EndpointChatModel
from fctncalling.evaluation.agents.agent import AgentSetupError, AgentUnavailable, ContextOverflow
from fctncalling.evaluation.agents.endpoint import (
    EndpointAgent,
    EndpointSettings,
    Redactor,
    is_context_overflow,
)
from fctncalling.lab.own_api import sender
from fctncalling.lab.viewer import load_run, page_data

OVERFLOW = "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens."


def agent_at(url: str, **more: Any) -> EndpointAgent:
    settings = {"retries": 0, "first_wait_s": 0.001, "timeout_s": 20.0, **more}
    return EndpointAgent(EndpointSettings("m", base_url=url, **settings))


def fault_of(agent: EndpointAgent) -> str:
    with pytest.raises(AgentUnavailable) as caught:
        agent.complete([{"role": "user", "content": "?"}])
    return str(caught.value)


def nobody() -> str:
    """Return an address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, OVERFLOW),
        (400, '{"error": {"code": "context_length_exceeded"}}'),
        (400, "The decoder prompt (length 3000) is longer than the maximum model length of 2048."),
        (400, "the request exceeds the available context size. try increasing the context size"),
        (400, '{"error": {"type": "exceed_context_size_error", "n_ctx": 4096}}'),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."),
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."),
        (413, "Prompt contains 40000 tokens, too large for model with 32768 context window"),
        (500, "the request exceeds the available context size"),
        (400, "max_tokens must be at least 1, got -20."),
        (400, "max_completion_tokens must be at least 1, got 0 (parameter=max_tokens)"),
    ],
)
def test_what_servers_say_of_a_context_that_is_full_is_recognised(status: int, text: str) -> None:
    assert is_context_overflow(status, text)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Invalid value for 'temperature': expected at most 2"),
        (400, "messages[1].role: expected one of system, user, assistant, tool"),
        (429, "Rate limit reached: context length tokens per minute"),
        (404, "The model with a large context window does not exist"),
        (500, "Internal server error"),
        (400, "max_tokens must be at most 4096, got 9000"),
    ],
)
def test_other_refusals_are_no_full_context(status: int, text: str) -> None:
    assert not is_context_overflow(status, text)


@pytest.mark.parametrize("form", ["prompting", "tool_call"])
def test_a_full_context_is_a_failure_that_is_told_apart_scored_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """25 in a row do not end the run, as 20 invalid ones would, nor leave the score."""

    def reply(_: int, body: dict[str, Any]) -> Any:
        if " 0 " not in body["messages"][-1]["content"]:
            return error(400, OVERFLOW)
        return (
            said(right_answer(body))
            if form == "prompting"
            else call_reply(("math_add", {"a": 0, "b": 1}))
        )

    output, tasks = tmp_path / "BFCL_v4_simple_python.jsonl", dataset(tmp_path, 26)
    tasks = tasks.rename(tmp_path / "BFCL_v4_simple_python.json")
    with endpoint(reply) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--form", form, "--json")
        assert run(output, *more, "--dataset_path", str(tasks)) == 0
    report = json.loads(capsys.readouterr().out)["categories"]["simple_python"]
    assert (report["episodes"], report["correct"], report["invalid"]) == (26, 1, 0)
    assert report["context_overflow"] == 25
    failed = [line for line in lines(output) if line.get("context_overflow")]
    assert {line["error_type"] for line in failed} == {"context_overflow"}
    assert len(stub.bodies) == 26, "nothing is asked again"
    assert main(["score", "--input", str(output), "--data_dir", str(tmp_path), "--json"]) == 0
    [scored] = json.loads(capsys.readouterr().out).values()
    assert scored["categories"]["simple_python"]["correct"] == 1
    assert scored["categories"]["simple_python"]["total"] == 26
    assert main(["replay", "--input", str(output), "--dataset_path", str(tasks), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["identical"] == 26


def test_a_message_is_made_as_long_as_the_context_has_room_for() -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        return said("Done.") if body["max_tokens"] <= 100 else error(400, OVERFLOW)

    with endpoint(reply) as stub:
        agent = agent_at(stub.url, max_tokens=1024)
        assert agent.complete([])["content"] == "Done."
        assert [body["max_tokens"] for body in stub.bodies] == [1024, 256, 64]
        stub.reply = lambda *_: error(400, OVERFLOW)
        with pytest.raises(ContextOverflow):
            agent.complete([])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raw(200, b"[" * 100_000), "no message"),
        (raw(200, b'{"choices": [{"message": {"tool_calls": 5}}]}'), "tool_calls: expected a list"),
        (
            raw(200, b'{"choices": [{"message": {"tool_calls": [{"function": 3}]}}]}'),
            "function's name",
        ),
        (raw(200, b'{"choices": [{"message": "text"}]}'), "expected an object"),
        (raw(200, b'{"choices": 7}'), "no message"),
        (raw(200, b"[]"), "no message"),
        (raw(200, b"\xff\xfe"), "no message"),
        (raw(200, b"not gzip", Content_Encoding="gzip"), "is no gzip"),
        (raw(200, gzip.compress(b"{}" * 999)[:-9], Content_Encoding="gzip"), "breaks off"),
        (raw(200, b"?", Content_Encoding="br"), "packed as 'br'"),
        (
            raw(200, gzip.compress(bytes(2**26)), Content_Encoding="gzip"),
            "more than 16,777,216 bytes",
        ),
        (raw(200, bytes(2**24 + 1)), "more than 16,777,216 bytes"),
        (raw(200, b"{}", Content_Length="100"), "RemoteProtocolError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_none_fails_one_request_and_nothing_more(answer: Any, told: str) -> None:
    with endpoint(lambda *_: answer) as stub:
        assert told in fault_of(agent_at(stub.url, timeout_s=5.0))


def test_a_packed_answer_is_read() -> None:
    data = json.dumps({"choices": [{"message": said("Hm.")}]}).encode()
    with endpoint(lambda *_: raw(200, gzip.compress(data), Content_Encoding="gzip")) as stub:
        assert agent_at(stub.url).complete([])["content"] == "Hm."


def drip(handler: Any, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
    """Answer byte by byte: every gap is short, so only a bound on the whole request can end it."""
    with contextlib.suppress(OSError):
        handler.wfile.write(head)
        for _ in range(200):
            handler.wfile.write(b"x")
            time.sleep(0.05)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_drips_ends_at_the_deadline(head: bytes) -> None:
    with endpoint(lambda *_: partial(drip, head=head)) as stub:
        agent, started = agent_at(stub.url, timeout_s=1.0), time.monotonic()
        assert "no whole answer within 1 s" in fault_of(agent)
        assert time.monotonic() - started < 5
        stub.reply = lambda *_: said("Well.")
        assert agent.complete([])["content"] == "Well.", (
            "the next request has a connection of its own"
        )


def test_users_operations_and_vllm_servers_are_held_to_the_same_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "TIMEOUT_S", 0.3)
    parameters = {"a": {"name": "a", "in": "body"}}
    origin = {"name": "x", "method": "POST", "path": "/x", "parameters": parameters}
    with endpoint(lambda *_: drip) as stub:
        for ask in (
            lambda: EndpointChatModel("m", stub.url, timeout_s=0.3)([]),
            lambda: VllmClient(stub.url, timeout_s=0.3).complete("m", [1]),
            lambda: sender.run_call({**origin, "server": stub.url}, {"a": 1}),
        ):
            started = time.monotonic()
            with pytest.raises(Exception, match=r"no whole answer within 0\.3 s"):
                ask()
            assert time.monotonic() - started < 5


@pytest.mark.parametrize("stage", ["connecting", "reading"])
def test_a_client_that_is_closed_frees_those_who_wait_for_an_answer(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, shut_down = threading.Event(), http_client._Connection.shut_down
    note = http_client._Connection.note

    def shut_down_first(connection: Any) -> None:
        shut_down(connection)
        if stage == "reading":
            ended.wait(5.0)  # a reader sees the end of its socket before httpx is closed

    def close_while_connecting(connection: Any, name: str, info: Any) -> None:
        if stage == "connecting" and name == "connection.connect_tcp.started":
            server.close()
        note(connection, name, info)

    monkeypatch.setattr(http_client._Connection, "shut_down", shut_down_first)
    monkeypatch.setattr(http_client._Connection, "note", close_while_connecting)
    with endpoint(lambda *_: drip) as stub:
        server = VllmClient(stub.url, timeout_s=60.0)
        closing = threading.Timer(0.1, server.close)
        closing.start()
        started = time.monotonic()
        with pytest.raises(ServerAwayError, match="closed"):
            server.complete("m", [1])
        ended.set()
        closing.join()
        assert time.monotonic() - started < 5


def test_keys_and_credentials_that_an_endpoint_echoes_are_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key, password = "sk-s3cret/0123", "pa55w0rd!"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def reply(number: int, body: dict[str, Any]) -> Any:
        text = f"Bearer {key} of http://user:{password}@host, {json.dumps(key)}"
        if " 0 " in body["messages"][-1]["content"]:
            return error(400, text)
        if number % 2:
            return error(500, text.replace("/", "\\/"))
        return said(f"{right_answer(body)} {text}")

    output, tasks = tmp_path / "out.jsonl", str(dataset(tmp_path, 4))
    with endpoint(reply) as stub:
        url = stub.url.replace("//", f"//user:{password}@")
        more = ("--agent", "openai:m", "--base_url", url, "--dataset_path", tasks)
        assert run(output, *more, "--retries", "3") == 1
    told = output.read_text() + "".join(capsys.readouterr())
    assert "[redacted]" in told
    assert "s3cret" not in told
    assert "pa55" not in told
    reason = next(line for line in lines(output) if line["invalid"])["invalid_reason"]
    assert "HTTP 400" in reason


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def _unicode_escapes(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


@pytest.mark.parametrize(
    "write",
    [
        str,
        quote,
        partial(quote, safe=""),
        lambda text: quote(text, safe="").lower(),
        _quoted,
        lambda text: _quoted(text).upper(),
        _unicode_escapes,
        lambda text: _unicode_escapes(text).upper().replace("U", "u"),
        lambda text: json.dumps(_unicode_escapes(text))[1:-1],
        lambda text: json.dumps(text).replace("/", "\\/")[1:-1],
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(f"{text}:".encode()).decode(),
    ],
)
def test_a_secret_is_found_however_it_is_written(write: Callable[[str], str]) -> None:
    """The tokens have no capitals and differ in what has to be quoted."""
    for token in ("s3cret/01+x=y", "s3cret-0123ü"):
        redactor = Redactor("", f"http://{quote(token, safe='')}@host/v1")
        written = write(token)
        told = (
            redactor.redact_text(f"Basic {written}.")
            + redactor.redact_json({"x": f"<{written}>"})["x"]
        )
        assert written not in told
        assert told.count("[redacted]") == 2
        assert len(told) <= len("Basic .<>") + 2 * len("[redacted]==")


def test_words_that_only_resemble_a_secret_stay() -> None:
    redactor = Redactor("sk-s3cret", "http://host/v1")
    text = "sk-s3cre t, sk_s3cret, %73k, http://host/v1 and c2stczNjcmV"
    assert redactor.redact_text(text) == text
    assert Redactor("", "http://@host@host/v1").redact_text("Basic Og==") == "Basic Og=="


MKDIR = {"type": "function", "function": {"name": "mkdir", "arguments": '{"dir_name": "x"}'}}


def _counting(tokens_of: Callable[[dict[str, Any]], Any], *, calls: bool = False) -> Any:
    """Return a reply that tells how many tokens the prompt had; calls: and begins with a call."""

    def reply(number: int, body: dict[str, Any]) -> Any:
        message = {**said(""), "tool_calls": [{**MKDIR, "id": "1"}]}
        begins = calls and len(body["messages"]) < 3
        answer = {"choices": [{"message": message if begins else said("Done.")}]}
        usage = tokens_of(body)
        return raw(200, json.dumps({**answer, "usage": usage}).encode())

    return reply


@pytest.mark.parametrize(
    ("usage", "notes"),
    [
        (lambda body: {"prompt_tokens": 15 + len(str(body["messages"])) // 4}, 1),
        (lambda body: {"prompt_tokens": len(json.dumps(body)) // 5}, 0),
        (lambda body: {}, 0),
        (lambda body: None, 0),
        (lambda body: {"prompt_tokens": "many"}, 0),
        (lambda body: {"prompt_tokens": 0}, 0),
    ],
)
def test_a_server_that_leaves_the_tools_out_is_told_once(
    usage: Any, notes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "BFCL_v4_multi_turn_base.json"
    tasks.write_text(json.dumps([MULTI]))
    for form in ("tool_call", "prompting"):
        with endpoint(_counting(usage)) as stub:
            more = ("--agent", "openai:m", "--base_url", stub.url, "--form", form)
            assert run(tmp_path / f"{form}.jsonl", *more, "--dataset_path", str(tasks)) == 0
        expected = notes if form == "tool_call" else 0
        assert capsys.readouterr().err.count("--form prompting") == expected


def test_a_server_whose_model_calls_has_shown_the_tools_however_short_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "BFCL_v4_multi_turn_base.json"
    tasks.write_text(json.dumps([MULTI]))
    with endpoint(_counting(lambda body: {"prompt_tokens": 19}, calls=True)) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--form", "tool_call")
        assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(tasks)) == 0
    assert "--form prompting" not in capsys.readouterr().err


def test_a_key_that_is_no_header_is_told_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret\nkey")
    with pytest.raises(AgentSetupError, match="OPENAI_API_KEY") as caught:
        agent_at("http://localhost:1/v1")
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret\n")  # as `$(cat file)` would not leave it
    agent_at("http://localhost:1/v1")


def test_an_address_where_nothing_listens_ends_the_run_within_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    more = ("--agent", "openai:m", "--base_url", nobody(), "--retry_wait_s", "0.2")
    assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(dataset(tmp_path, 40))) == 2
    assert time.monotonic() - started < 5
    assert "no endpoint is reached there" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists(), "the same command works when the server does"


def test_an_endpoint_that_goes_away_is_waited_for_visibly_and_then_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fctncalling.evaluation.agents.endpoint.OUTAGE_S", 0.0)
    with endpoint(lambda *_: said("Here.")) as stub:
        agent = agent_at(stub.url, retries=3)
        agent.complete([])
    with pytest.raises(AgentSetupError, match=r"has not been there.*--resume"):
        agent.complete([])
    assert "trying again" in capsys.readouterr().err


def test_a_lone_surrogate_of_a_model_reaches_the_endpoint_as_text() -> None:
    with endpoint(lambda *_: said("Well.")) as stub:
        agent_at(stub.url).complete([{"role": "user", "content": "a\ud83d b\ud83d\ude00 c\udc00"}])
    assert stub.bodies[0]["messages"][0]["content"] == "a\ufffd b\U0001f600 c\ufffd"


CALLS_AS_TEXT = (
    'Well.\n<tool_call>\n{"name": "mkdir", "arguments": {"dir_name": "x"}}\n</tool_call>',
    "Made.",
    '<tool_call>\n{"name": "pwd", "arguments": {}}\n</tool_call>',
    "Here.",
)


def test_calls_that_a_server_returns_as_text_are_read_by_tools_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "BFCL_v4_multi_turn_base.json"
    tasks.write_text(json.dumps([MULTI]))
    output = tmp_path / "out.jsonl"
    thoughts = {0: {"reasoning_content": "apart"}}  # the second stands in the text

    def reply(number: int, _: Any) -> Any:
        text = "<think>\nin the text\n</think>\n" * (number == 1) + CALLS_AS_TEXT[number]
        return {**said(text), **thoughts.get(number, {})}

    with endpoint(reply) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--dataset_path", str(tasks))
        assert run(output, *more, "--form", "tools_text") == 0
    [line] = lines(output)
    assert (line["valid"], line["strict_valid"], line["form"]) == (True, True, "tools_text")
    shown = [step.get("reasoning_content") for step in line["steps"]]
    assert shown == ["apart", "in the text", None, None]
    [entry] = page_data(load_run(output), lambda record: (None, {}))["episodes"]
    assert [step.get("thought") for step in entry["steps"]] == shown
    assert all(body["tools"] for body in stub.bodies)
    _, call, result, *_ = stub.bodies[-1]["messages"]
    assert (call["content"], call["tool_calls"][0]["function"]["name"]) == ("Well.", "mkdir")
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    capsys.readouterr()
    assert main(["score", "--input", str(output), "--data_dir", str(tmp_path), "--json"]) == 0
    [scored] = json.loads(capsys.readouterr().out).values()
    assert scored["categories"]["multi_turn_base"]["correct"] == 1
    assert main(["replay", "--input", str(output), "--dataset_path", str(tasks)]) == 0


def test_names_with_dots_are_judged_in_tools_text_as_in_tool_call(tmp_path: Path) -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        number = body["messages"][-1]["content"].split()[1]
        call = {"name": "math_add", "arguments": {"a": int(number), "b": 1}}
        return said(f"<tool_call>{json.dumps(call)}</tool_call>")

    with endpoint(reply) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--form", "tools_text")
        assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(dataset(tmp_path))) == 0
    assert [line["valid"] for line in lines(tmp_path / "out.jsonl")] == [True] * 3


def test_calls_in_text_are_pointed_out_once_where_tool_call_takes_them_for_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = '<tool_call>{"name": "math_add", "arguments": {"a": 1, "b": 1}}</tool_call>'
    with endpoint(lambda *_: said(call)) as stub:
        more = ("--agent", "openai:m", "--base_url", stub.url, "--form", "tool_call")
        assert run(tmp_path / "out.jsonl", *more, "--dataset_path", str(dataset(tmp_path))) == 0
    shown = capsys.readouterr()
    assert shown.err.count("--form tools_text") == 1
    assert "3 answers hold a call that could not be read" in shown.out
