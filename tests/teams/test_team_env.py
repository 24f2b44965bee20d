"""TeamEnv: views, tools and turn order of roles, and the same verdicts as an agent alone."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams.parcels import parcel_tasks
from fctncalling.envs.teams.team import parse_team

ALL_TASKS = load_tasks(embedded_path("held_out"))
BFCL_TASKS = ALL_TASKS[::10]
ONE = {"roles": {"agent": {"tools": "all"}}, "turn_order": ["agent"], "answer": "agent"}


def named(accepted: dict[str, list[str]]) -> str:
    """The first accepted value of each argument, as a call names them."""
    return ", ".join(f"{name}='{values[0]}'" for name, values in accepted.items())


def texts_of(task: Task) -> list[str]:
    """The ground truth as messages: the calls of a turn, then words that end it."""
    render = get_handler("python_calls").render
    texts = []
    for calls in oracle_calls(task):
        texts += [render(calls)] if calls else []
        texts += ["Done."] if task.executes_calls or not calls else []
    return texts


def playthrough(env: gymnasium.Env[str, str], task_id: str, texts: list[str]) -> list[object]:
    """What an episode shows and pays, messages and tools included."""
    observation, info = env.reset(seed=3, options={"task_id": task_id})
    seen: list[object] = [observation, info["messages"], info["tools"]]
    for text in texts:
        observation, reward, terminated, truncated, info = env.step(text)
        shown = [] if terminated else [observation, info["messages"], info["tools"]]
        seen += [*shown, reward, terminated, truncated, info["calls"], info["error"]]
        seen.append(info.get("verdict"))
    assert terminated
    return seen


@pytest.mark.parametrize("wrong", [False, True])
def test_a_team_of_one_plays_as_the_agent_of_function_calling_env(wrong: bool) -> None:
    team = TeamEnv(team=parse_team(ONE, "one"), tasks=BFCL_TASKS)
    alone = FunctionCallingEnv(tasks=BFCL_TASKS)
    valid = 0
    for task in BFCL_TASKS:
        texts = ["Sorry."] * len(task.question) if wrong else texts_of(task)
        played = playthrough(team, task.id, texts)
        assert played == playthrough(alone, task.id, texts), task.id
        valid += played[-1].valid  # type: ignore[attr-defined]
    assert (valid < 10) if wrong else (valid == len(BFCL_TASKS))


def test_each_role_sees_its_own_half() -> None:
    env = TeamEnv(tasks=parcel_tasks("train", 5), prompt_style="compact")
    for task in env.tasks:
        halves = task.extra["knowledge"]
        send = task.ground_truth[0]["send"]  # type: ignore[index]
        observation, info = env.reset(options={"task_id": task.id})
        assert info["role"] == "planner"
        assert info["tools"] == []
        assert halves["addresses"] in observation
        assert halves["boxes"] not in observation
        assert task.question[0][0]["content"] in observation
        assert "send(" not in observation
        observation, reward, terminated, _, info = env.step("the words")
        assert (reward, terminated, info["role"]) == (0.0, False, "caller")
        assert halves["boxes"] in observation
        assert halves["addresses"] not in observation
        assert task.question[0][0]["content"] not in observation
        assert info["messages"][-1] == {"role": "user", "content": "planner: the words"}
        assert [tool["function"]["name"] for tool in info["tools"]] == ["send"]
        answer = f"[send({named(send)})]"
        _, reward, terminated, _, info = env.step(answer)
        assert (reward, terminated, info["verdict"].valid) == (1.0, True, True)


FUNCTIONS = ("ls", "cat", "touch", "mkdir")
FILES = Task(
    "files",
    "multi_turn_base",
    [[{"role": "user", "content": "Look."}], [{"role": "user", "content": "Look again."}]],
    [FunctionDoc(n, n, {"properties": {"dir_name": {"type": "string"}}}) for n in FUNCTIONS],
    [["ls()"], ["ls()"]],
    {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}},
    ["GorillaFileSystem"],
)


def _split(**more: object) -> TeamEnv:
    roles = {
        "reader": {"sees": ["user", "writer"], "tools": ["ls", "cat"]},
        "writer": {"sees": ["reader"], "tools": ["touch", "mkdir"]},
    }
    content = {"roles": roles, "turn_order": ["reader", "writer"], "answer": "writer", **more}
    return TeamEnv(team=parse_team(content, "split"), tasks=[FILES])


def test_a_role_cannot_call_the_tools_of_another() -> None:
    env = _split()
    _, info = env.reset()
    assert {tool["function"]["name"] for tool in info["tools"]} == {"ls", "cat"}
    _, reward, terminated, _, info = env.step("[mkdir(dir_name='planted')]")
    assert (reward, terminated, info["role"], info["error"]) == (
        0.0,
        False,
        "reader",
        "unknown_function",
    )
    assert 'the reader cannot call "mkdir". Its functions: ' in info["messages"][-1]["content"]
    _, _, _, _, info = env.step("[ls()]")
    assert info["role"] == "reader"
    assert "planted" not in str(info["messages"])
    _, _, _, _, info = env.step("make it")
    assert info["role"] == "writer"
    heard = [message["content"] for message in info["messages"]]
    assert heard == ["reader: [ls()]", "reader: make it"]  # neither results nor what was refused
    _, _, _, _, info = env.step("[mkdir(dir_name='planted')]")
    assert info["role"] == "writer"
    assert info["error"] is None


def test_calls_run_only_once_approved() -> None:
    env = TeamEnv(team="caller_checker", tasks=[FILES])
    env.reset()
    _, _, _, _, info = env.step("[mkdir(dir_name='first')]")
    assert info["role"] == "checker"
    assert "first" in info["messages"][-1]["content"]
    _, _, _, _, info = env.step("No, look first.")
    assert info["role"] == "caller"
    assert info["messages"] == [{"role": "user", "content": "checker: No, look first."}]
    env.step("[ls()]")
    _, _, _, _, info = env.step("APPROVED")
    assert info["role"] == "caller"  # it reads the results of its calls
    assert info["messages"][-1]["role"] == "tool"
    assert "first" not in str(info["messages"])
    env.step("Done.")
    _, _, terminated, _, info = env.step("APPROVED")
    assert not terminated
    assert (info["turn"], info["role"]) == (1, "caller")


def test_one_message_too_many_ends_the_episode_unsolved() -> None:
    content = {
        "roles": {"one": {"tools": "all"}, "two": {}},
        "turn_order": ["one", "two"],
        "answer": {"role": "two", "word": "END"},
        "max_messages": 3,
    }
    env = TeamEnv(team=parse_team(content, "talkers"))
    env.reset(seed=1)
    for _ in range(3):
        assert env.step("words")[2] is False
    _, reward, terminated, truncated, info = env.step("words")
    assert (reward, terminated, truncated, info["error"]) == (0.0, True, False, "step_limit")
    assert info["verdict"].error_type == "team:message_limit"
    assert not info["verdict"].valid
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("words")


def test_own_rewards_are_a_share_of_the_teams_less_prices() -> None:
    content = {
        "roles": {
            "planner": {"knows": ["addresses"], "rewards": {"team": 0.5, "message": -0.1}},
            "caller": {"sees": ["planner"], "tools": "all", "rewards": {"error": -0.25}},
        },
        "turn_order": ["planner", "caller"],
        "answer": "caller",
    }
    env = TeamEnv(team=parse_team(content, "paid"))
    _, info = env.reset(seed=0)
    send = next(t for t in env.tasks if t.id == info["task_id"]).ground_truth[0]["send"]  # type: ignore[index]
    right = f"[send({named(send)})]"
    assert env.step("words")[4]["rewards"] == {"planner": -0.1, "caller": 0.0}
    assert env.step(right)[4]["rewards"] == {"planner": 0.5, "caller": 1.0}
    env.reset(seed=0)
    env.step("words")
    assert env.step("no call")[4]["rewards"] == {"planner": 0.0, "caller": -0.25}


def test_it_keeps_gymnasiums_contract_and_its_states_can_be_restored() -> None:
    env = gymnasium.make("fctncalling:fctncalling/Team-v0").unwrapped
    check_env(env, skip_render_check=True)
    assert isinstance(env, TeamEnv)
    env.reset(seed=5)
    env.step("lamp to oslo")
    state = env.get_state()
    texts = ["[send(city='oslo', box='bag')]"]
    first = [env.step(text) for text in texts], env.reset()
    env.set_state(state)
    assert ([env.step(text) for text in texts], env.reset()) == first
    envs = gymnasium.make_vec("fctncalling/Team-v0", num_envs=2, vectorization_mode="sync")
    assert list(envs.reset(seed=1)[1]["role"]) == ["planner", "planner"]
    envs.step(("a", "b"))
    envs.close()


@pytest.mark.parametrize("rows", [1, 3])
def test_tasks_of_the_splits_differ_and_no_half_of_the_knowledge_tells_the_call(rows: int) -> None:
    train = parcel_tasks("train", 400, table_size=rows)
    held_out = parcel_tasks("held_out", 100, table_size=rows)
    known = {(task.question[0][0]["content"], str(task.extra)) for task in train}
    assert not known & {(t.question[0][0]["content"], str(t.extra)) for t in held_out}
    for task in train:
        send = task.ground_truth[0]["send"]  # type: ignore[index]
        halves, question = task.extra["knowledge"], task.question[0][0]["content"]
        assert send["city"][0] in halves["addresses"]
        assert send["box"][0] in halves["boxes"]
        assert send["city"][0] not in halves["boxes"] + question
        assert send["box"][0] not in halves["addresses"] + question
        assert len(halves["boxes"].split(", ")) == rows


def test_tables_cannot_be_longer_than_there_are_people() -> None:
    assert len(parcel_tasks("train", 1, table_size=8)) == 1
    for size in (0, 9):
        with pytest.raises(ValueError, match=f"table_size: got {size}, expected 1 to 8"):
            parcel_tasks("train", 1, table_size=size)
