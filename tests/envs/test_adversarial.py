"""Hostile call texts: every handler, the executor, the judge and the environment answer them, soon,
running nothing.
"""

from __future__ import annotations

import ast
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adversarial import adversarial_texts
from players import simple_task

from fctncalling.data.types import Task, Verdict
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import HANDLERS, DecodeError, get_handler
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.handlers.handler import MAX_TEXT_CHARS
from fctncalling.envs.judging.judge import ANSWER_FORMS, judge
from fctncalling.envs.tools import AGENTIC_TOOLS, TOOL_CLASSES

ROOT = Path(__file__).parents[2]
TEXTS = adversarial_texts()
SAMPLE = dict(list(TEXTS.items())[::6]) | {"blanks": TEXTS["blanks"]}
"""What the fast tests take; `make prove` takes all."""
SIZES = [pytest.param(SAMPLE, id="sample"), pytest.param(TEXTS, id="all", marks=pytest.mark.prove)]
CLASSES = sorted(set(TOOL_CLASSES) - AGENTIC_TOOLS)
BOUND_S = (
    0.05  # CPU seconds, median of five; the fast tests allow ten times that, in one of two tries
)
MESSAGE_S = 1.0  # of a message whose calls, thousands perhaps, are all run


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def seconds_of_two(action: Callable[[], object]) -> float:
    """Return what an action takes, or takes again if that was long: imports and garbage of others
    count once.
    """
    taken = seconds(action)
    return taken if taken <= 10 * BOUND_S else min(taken, seconds(action))


def decoded(name: str, text: str) -> None:
    with contextlib.suppress(DecodeError):
        get_handler(name).decode(text)


def readable(name: str) -> bool:
    """Whether what a handler needs is installed."""
    try:
        get_handler(name).decode("")
    except DecodeError:
        return True
    except ImportError:
        return False
    return True


NAMES = sorted(filter(readable, [*HANDLERS, "lenient:python_calls", "lenient:json_calls"]))


def multi_turn_task() -> Task:
    return Task(
        "multi_turn_base_0",
        "multi_turn_base",
        [[{"role": "user", "content": "What is two to the third?"}]],
        ground_truth=[["power(base=2, exponent=3)"]],
        involved_classes=CLASSES,
    )


def test_the_set_is_as_large_as_it_is_said_to_be() -> None:
    assert len(set(TEXTS.values())) >= 160
    assert max(map(len, TEXTS.values())) > 1_000_000
    assert (
        sum(60_000 < len(text) <= MAX_TEXT_CHARS for text in TEXTS.values()) > 50
    )  # just short enough to be read


@pytest.mark.parametrize("texts", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_every_handler_reads_or_refuses_every_text_soon(name: str, texts: dict[str, str]) -> None:
    times = {case: seconds_of_two(lambda: decoded(name, text)) for case, text in texts.items()}  # noqa: B023
    slow = {case: taken for case, taken in times.items() if taken > 10 * BOUND_S}
    assert slow == {}


@pytest.mark.parametrize("texts", SIZES)
def test_every_text_is_executed_to_a_text_soon_and_changes_no_other_session(
    texts: dict[str, str],
) -> None:
    session, other = ToolSession(CLASSES, {}), ToolSession(CLASSES, {})
    before, slow = other.public_state(), {}
    for case, text in texts.items():
        results: list[str] = []
        for call in (text, text.strip("[]")):
            if seconds_of_two(lambda: results.append(session.execute(call))) > 10 * BOUND_S:  # noqa: B023
                slow[case] = results
        assert all(isinstance(result, str) for result in results)
    assert slow == {}
    assert other.public_state() == before


@pytest.mark.parametrize("texts", SIZES)
@pytest.mark.parametrize(
    "task", [simple_task(), multi_turn_task()], ids=["single turn", "multi turn"]
)
def test_every_text_is_judged(task: Task, texts: dict[str, str]) -> None:
    for form in ANSWER_FORMS:
        if form == "decoded_calls" and not task.is_multi_turn:
            continue
        for text in texts.values():
            assert isinstance(judge(task, [[text]] if task.is_multi_turn else text, form), Verdict)


@pytest.mark.parametrize("texts", SIZES)
@pytest.mark.parametrize(
    "task", [simple_task(), multi_turn_task()], ids=["single turn", "multi turn"]
)
def test_every_text_is_a_step_of_the_environment(task: Task, texts: dict[str, str]) -> None:
    env, slow = FunctionCallingEnv(tasks=[task]), []
    for case, text in texts.items():
        env.reset(seed=0)
        start = time.process_time()
        *_, info = env.step(text)
        if time.process_time() - start > 10 * MESSAGE_S:
            slow.append(case)
        assert not info.get("invalid"), case
    assert slow == []


_EVENTS: list[str] | None = None  # what the interpreter was asked for, None while nobody listens
_FORBIDDEN = (
    "exec",
    "import",
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "code.__new__",
    "object.__getattr__",
)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    # CPython looks for the source line of a SyntaxError in a file of the name that parse_expression
    # gives.
    its_own_name = event == "open" and arguments[0] == "<string>"
    if _EVENTS is not None and event.startswith(_FORBIDDEN) and not its_own_name:
        _EVENTS.append(event)


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    global _EVENTS
    if not _heard.__dict__.setdefault("added", False):
        sys.addaudithook(_heard)  # there is no taking it away again
        _heard.__dict__["added"] = True
    _EVENTS = heard = []
    try:
        yield heard
    finally:
        _EVENTS = None


def test_no_text_makes_the_interpreter_run_import_or_open_anything() -> None:
    session, texts = (
        ToolSession(CLASSES, {}),
        [text for text in TEXTS.values() if len(text) < 2_000],
    )
    names = [
        name for name in NAMES if not name.startswith("lenient:")
    ]  # the repairing library reads its own way

    def everything() -> None:
        for text in texts:
            session.execute(text)
            for name in names:
                decoded(name, text)

    everything()  # what is imported on first use is imported here
    with listening() as heard:
        everything()
    assert heard == []
    with listening() as heard:
        exec("pass")
    assert heard == ["exec"]  # the listener does hear


# Where the rooms that model text comes to may call what could run text, with the reason.
MAY_CALL = {
    ("checkers/math/symbolic.py", "getattr"): "names of a fixed table of functions",
    ("envs/__init__.py", "getattr"): "lazy public names of the room",
    ("envs/__init__.py", "import_module"): "lazy public names of the room",
    (
        "envs/python_source/evaluator.py",
        "getattr",
    ): "the evaluator's own methods, by the class of a syntax node",
    (
        "envs/handlers/execution.py",
        "getattr",
    ): "public methods of the task's classes, by a list made beforehand",
    ("envs/python_source/call_source.py", "compile"): "to a code object that is thrown away",
    ("envs/tools/box/toolbox.py", "import_module"): "the MCP client, one constant name",
    ("envs/user_tools.py", "getattr"): "classes that the user gives",
    (
        "envs/named_tools.py",
        "getattr",
    ): "classes that a task names by their path, where the user allows it",
    (
        "envs/named_tools.py",
        "import_module",
    ): "classes that a task names by their path, where the user allows it",
    ("data/token_file.py", "getattr"): "fields of a dataclass",
    (
        "envs/episode/state.py",
        "getattr",
    ): "fields of a dataclass; attributes that an object has, and fixed names",
    ("envs/handlers/return_formats.py", "format"): "stubs of the formats themselves",
    ("envs/tools/__init__.py", "getattr"): "classes that the registry or the user names",
    ("envs/tools/__init__.py", "import_module"): "classes that the registry or the user names",
    ("envs/errors.py", "import_module"): "optional libraries",
    ("envs/users/language_model_user.py", "format"): "a constant, values are strings",
    ("envs/users/rule_user.py", "format"): "wordings of a constant table, values are strings",
}
_WATCHED = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "import_module",
    "getattr",
    "format",
    "format_map",
}


def watched_calls(file: Path) -> Iterator[str]:
    """Yield what is called in a file that could run or reach what a text names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if name not in _WATCHED or (method and ast.unparse(node.func) == "re.compile"):
            continue
        of_a_constant = isinstance(node.func, ast.Attribute) and isinstance(
            node.func.value, ast.Constant
        )
        by_a_constant = name == "getattr" and isinstance(node.args[1], ast.Constant)
        if not (of_a_constant or by_a_constant):
            yield name


def test_nothing_that_model_text_comes_to_could_run_it() -> None:
    files = [
        file
        for room in ("data", "checkers", "envs")
        for file in sorted((ROOT / room).rglob("*.py"))
    ]
    confined = (
        "envs/tools/python_executor/"  # whose purpose is to run text, in processes of their own
    )
    found = {
        (str(file.relative_to(ROOT)), name)
        for file in files
        if not str(file.relative_to(ROOT)).startswith(confined)
        for name in watched_calls(file)
    }
    assert found == set(MAY_CALL)


@pytest.mark.prove
@pytest.mark.parametrize("name", [*NAMES, "execution"])
def test_fifty_milliseconds_of_one_core_are_enough_for_every_text(name: str) -> None:
    session = ToolSession(CLASSES, {})
    action = session.execute if name == "execution" else lambda text: decoded(name, text)
    medians = {
        case: statistics.median(seconds(lambda: action(text)) for _ in range(5))  # noqa: B023
        for case, text in TEXTS.items()
    }
    assert {case: taken for case, taken in medians.items() if taken > BOUND_S} == {}
