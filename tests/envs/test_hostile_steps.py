"""What a model writes is a step: no text raises, makes its own episode invalid, fills the memory or
takes long.
"""

from __future__ import annotations

import json
import resource
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from players import SHOP_DOCS, Shop, simple_task

from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.run.logs import episode_json
from fctncalling.data.types import Task
from fctncalling.data.unsafe_text import json_text
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import HANDLERS, TEXT_HANDLERS
from fctncalling.envs.handlers.execution import NESTED_TOO_DEEP, ToolSession
from fctncalling.envs.python_source.call_source import MAX_WEIGHT, value_size
from fctncalling.envs.tool_text.env import ToolTextEnv
from fctncalling.envs.tools.box.callables import as_tool

LOGIN = {
    "TwitterAPI": {"username": "ann", "password": "p", "authenticated": True, "tweets": {}},
    "TicketAPI": {"current_user": "ann", "ticket_queue": [], "ticket_counter": 1},
}
MEMORY_KB, SECONDS = 200_000, 10.0  # of processor time; the machine may be busy


def desk_task() -> Task:
    return Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": "Post."}], [{"role": "user", "content": "Again."}]],
        functions=SHOP_DOCS,
        ground_truth=[["ticket_get_login_status()"], ["look()"]],
        involved_classes=("TwitterAPI", "TicketAPI", "Shop"),
        initial_config=LOGIN,
    )


def desk_env(**keywords: Any) -> FunctionCallingEnv:
    return FunctionCallingEnv(tasks=[desk_task()], tools={"Shop": Shop}, **keywords)


def require_playable(env: Any, texts: list[str]) -> None:
    """Play texts, episode after episode where one ends; each must be an ordinary step that can be
    logged.
    """
    env.reset(seed=0)
    for text in texts:
        observation, reward, terminated, truncated, info = env.step(text)
        assert not info.get("invalid"), info["invalid_reason"]
        assert isinstance(observation, str)
        assert isinstance(reward, float | int)
        json_text(info["messages"]).encode()
        if terminated or truncated:
            if isinstance(env, FunctionCallingEnv):
                row = TokenRecord([1], [True], [True], [0.0], [0.0])
                json.dumps(
                    episode_json(EpisodeRecord("t", "c", [row], episode=env.episode)), default=repr
                )
            env.reset(seed=0)


NESTED_CALLS = {
    "tweets": ["post_tweet(content=get_user_tweets(username='ann'))"] * 40,
    "tickets": ["create_ticket(title=get_user_tickets())"] * 40,
    "tickets in tickets": [f"create_ticket(title=get_ticket(ticket_id={n}))" for n in range(1000)],
    "mentions": ["post_tweet(content='x', mentions=['a'])"]
    + ["mention(tweet_id=0, mentioned_usernames=get_tweet(tweet_id=0)['mentions'])"] * 40,
    "texts": ["create_ticket(title='x' * 400000)"]
    + ["create_ticket(title=get_ticket(ticket_id=1)['title'] + 'y')"] * 700,
    "results": ["create_ticket(title='x' * 400000)"] + ["get_ticket(ticket_id=1)"] * 1500,
    "itself": [
        "create_ticket(title='x')",
        "edit_ticket(ticket_id=1, updates={'title': [get_ticket(ticket_id=1)]})",
        "get_ticket(ticket_id=1)",
        "get_ticket(ticket_id=1) == get_ticket(ticket_id=1)",
    ],
    "a chain from its front": ["create_ticket(title='x')"] * 700
    + [
        f"edit_ticket(ticket_id={n}, updates={{'title': [get_ticket(ticket_id={n + 1})]}})"
        for n in range(1, 700)
    ],
    "doubled from its front": ["create_ticket(title='x')"] * 50
    + [
        f"edit_ticket(ticket_id={n}, updates="
        f"{{'title': [get_ticket(ticket_id={n + 1}), get_ticket(ticket_id={n + 1})]}})"
        for n in range(1, 50)
    ]
    + [
        "get_ticket(ticket_id=1)",
        "get_user_tickets()",
        "get_ticket(ticket_id=get_ticket(ticket_id=1))",
    ],
}


@pytest.mark.parametrize("calls", NESTED_CALLS.values(), ids=NESTED_CALLS)
def test_nested_calls_neither_fill_the_memory_nor_hang(calls: list[str]) -> None:
    env = desk_env()
    messages = [f"[{', '.join(calls[i : i + 250])}]" for i in range(0, len(calls), 250)]
    started, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    require_playable(env, [*messages, "done", "done"])
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < MEMORY_KB


def test_a_nested_result_that_is_too_large_is_the_model_s_mistake() -> None:
    session = ToolSession(["TwitterAPI"], LOGIN)
    results = [session.execute(NESTED_CALLS["tweets"][0]) for _ in range(40)]
    assert json.loads(results[3])["content"] == json.loads(f"[{', '.join(results[:3])}]")
    assert results[-1] == "Error during execution: the result would be too large"
    state = session.get_state()
    again = [session.execute("get_tweet(tweet_id=3)") for _ in range(2)]
    session.set_state(state)
    assert again == [session.execute("get_tweet(tweet_id=3)"), results[3]]


@pytest.mark.parametrize("case", ["tickets in tickets", "a chain from its front", "itself"])
def test_what_tools_hold_can_be_copied_whatever_calls_made_of_it(case: str) -> None:
    env = desk_env()
    env.reset(seed=0)
    for call in NESTED_CALLS[case]:
        env._state.session.execute(call)  # type: ignore[union-attr]
    state = env.get_state()
    steps = []
    for _ in range(2):
        env.set_state(state)
        steps.append(env.step("[get_ticket(ticket_id=1), get_ticket(ticket_id=2)]")[0])
    assert steps[0] == steps[1] != ""


def test_a_state_that_nests_too_deep_equals_no_state() -> None:
    session = ToolSession(["TicketAPI"], LOGIN)
    for call in NESTED_CALLS["a chain from its front"] + [
        f"create_ticket(title='{n}')" for n in range(700)
    ]:
        session.execute(call)
    deep = session._instances["TicketAPI"].ticket_queue
    for n in range(len(deep) - 1):
        deep[n]["title"] = [deep[n + 1]]
    assert session.public_state() == {"TicketAPI": NESTED_TOO_DEEP}


def test_weights_count_what_is_shared_each_time_and_what_holds_itself_once() -> None:
    shared: Any = []
    for _ in range(60):
        shared = [shared, shared]
    itself: list[Any] = [1]
    itself.append(itself)
    deep: Any = 1
    for _ in range(2000):
        deep = [deep]
    assert value_size(shared) == value_size(deep) == MAX_WEIGHT + 1
    assert value_size(itself) == 3
    assert value_size({"a": [1, "x" * 50, None], "b": 2.0}) == 13
    assert value_size([0] * 1000) == value_size((0.5,) * 1000) == 1001


BRACKETS = ["[" * 600 + "]" * 600, '{"a": ' * 600 + "1" + "}" * 600, "(" * 300, "[" * 90 + "]" * 90]
NESTED = [
    text
    for value in BRACKETS
    for text in (
        f'[{{"name": "shout", "arguments": {{"text": {value}}}}}]',
        f'{{"name": "shout", "parameters": {{"text": {value}}}}}',
        f'<tool_call>\n{{"name": "shout", "arguments": {{"text": {value}}}}}\n</tool_call>',
        f'{{"tool_calls": [{{"function": {{"name": "shout", "arguments": {{"text": '
        f"{value}}}}}}}]}}",
        f'[{{"shout": '
        f"{json.dumps(json.dumps({'text': 'x'}).replace(chr(34) + 'x' + chr(34), value))}}}]",
        f'[TOOL_CALLS][{{"name": "shout", "arguments": {{"text": {value}}}}}]',
        f"[shout(text={value})]",
        f'<functions><function name="shout"><params><param name="text" value="{value}" '
        'type="array"/></params>'
        "</function></functions>",
    )
]


def readable(name: str) -> bool:
    try:
        desk_env(handler=name)
    except (ImportError, MissingExtra):
        return False
    return True


NAMES = [
    name for name in [*HANDLERS, "lenient:json_calls", "lenient:python_calls"] if readable(name)
]


@pytest.mark.parametrize("name", NAMES)
def test_nested_arguments_are_steps_in_every_form(name: str) -> None:
    require_playable(desk_env(handler=name), NESTED)
    require_playable(FunctionCallingEnv(tasks=[simple_task()], handler=name), NESTED)


def two(query: str, other: str = "") -> str:
    """Return a text of two."""
    return f"{query}{other}"


def pair(a: str, b: str) -> str:
    """Return a text of two."""
    return f"{a}{b}"


def text_env(name: str) -> ToolTextEnv:
    tools: dict[str, Any] = {"two": two, "pair": pair, "one": str.upper}
    if name in ("python_block", "markdown_block"):
        tools["python_executor"] = lambda code: code
    box = {tool: as_tool(each, name=tool, timeout_s=None) for tool, each in tools.items()}
    return ToolTextEnv(tools=box, handler=name, max_turns=3)


TEXT_ANSWERS = [
    "Result=(1,2",
    "Result=[0, 1",
    "Result={",
    "Result=" + "\\sin" * 200,
    "Result=" + "\\frac" * 200,
    "Result=" + "-" * 290 + "1",
    "Result=" + "2^" * 140 + "2",
    "Result=" + "9" * 900,
    "Result=10^10^10",
    "Result=\ud83d",
]
TEXT_CALLS = [
    f"<request><{tool}>{query}<call>"
    for tool in ("two", "pair", "one", "nothing")
    for query in ("[" * 500, '{"a": ' * 500, '{"query": [1]}', "5", "\ud83d", "")
] + [
    f"<tool_call>{call}</tool_call>"
    for value in ("[1]", "null", "{}", *BRACKETS)
    for call in (
        f'{{"name": "two", "arguments": {{"query": {value}}}}}',
        f'{{"name": "pair", "arguments": {{"query": {value}}}}}',
        f'{{"name": "pair", "arguments": {{"a": {value}, "b": {value}}}}}',
        f'{{"name": {value}, "arguments": {value}}}',
    )
]


@pytest.mark.parametrize("name", TEXT_HANDLERS)
def test_calls_and_answers_in_mid_generation_are_steps(name: str) -> None:
    answers = [f"{answer}{end}" for answer in TEXT_ANSWERS for end in ("", "<submit>")]
    require_playable(text_env(name), [*TEXT_CALLS, *answers])


PIECES = st.sampled_from(
    [
        *(
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            ",",
            ":",
            "=",
            '"',
            "'",
            "\\",
            "<",
            ">",
            "\n",
            "`",
            ";",
            "|",
            "^",
            "_",
            "%",
            "!",
        ),
        *(
            "shout",
            "look",
            "text",
            "name",
            "arguments",
            "parameters",
            "function",
            "query",
            "two",
            "pair",
            "Result=",
        ),
        *(
            '"name"',
            '"arguments"',
            '"parameters"',
            '{"name": "shout", "arguments": {"text": ',
            '{"query": ',
        ),
        *(
            "[shout(text=",
            "get_user_tickets()",
            "create_ticket(title=",
            "**",
            "*",
            "lambda: 0",
            "x if 1 else 2",
        ),
        *(
            "<tool_call>",
            "</tool_call>",
            "[TOOL_CALLS]",
            "<|python_tag|>",
            "<request>",
            "<call>",
            "<submit>",
        ),
        *(
            "<functions>",
            '<function name="shout">',
            "</function>",
            "<params>",
            "</functions>",
            "<TOOLCALL>",
            "```",
        ),
        *(
            "\\frac",
            "\\sqrt",
            "\\sin",
            "10",
            "1e999",
            "-1",
            "0x",
            "9" * 400,
            "nan",
            "None",
            "true",
            "null",
            "[" * 70,
        ),
        *(
            "\ud83d",
            "\\ud83d\\ude00",
            "\u2028",
            "\0",
            "é",
            "漢",
            "\u200b",
            "</think>",
            "]" * 70,
            '{"a":' * 60,
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=25).map("".join)


def require_hostile_texts(names: list[str], data: Any) -> None:
    name = data.draw(st.sampled_from(names))
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=4))
    if name in TEXT_HANDLERS:
        require_playable(text_env(name), texts)
    else:
        for env in (
            desk_env(handler=name),
            FunctionCallingEnv(tasks=[simple_task()], handler=name),
        ):
            require_playable(env, texts)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_hostile_texts_are_steps_whatever_the_handler(data: Any) -> None:
    require_hostile_texts([*NAMES, *TEXT_HANDLERS], data)


@pytest.mark.prove
@settings(max_examples=4000, derandomize=True, deadline=None)
@given(st.data())
def test_many_hostile_texts_are_steps_whatever_the_handler(data: Any) -> None:
    require_hostile_texts([*NAMES, *TEXT_HANDLERS], data)
