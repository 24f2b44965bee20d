"""Team files: what is read, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fctncalling.envs.team import TeamEnv
from fctncalling.envs.teams import BUILT_IN_TEAMS, TeamError, load_team

GOOD: dict[str, Any] = {
    "roles": {"planner": {"knows": ["addresses"]}, "caller": {"sees": ["planner"], "tools": "all"}},
    "turn_order": ["planner", "caller"],
    "answer": "caller",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good team with a field replaced, or (None) without it."""
    team = json.loads(json.dumps(GOOD))
    *parents, last = path.split("/")
    place = team
    for key in parents:
        place = place[key]
    place[last] = value
    if value is None:
        del place[last]
    return team


MISTAKES = {
    'role "planner": sees: got "cheker", expected user, tool, planner, caller': changed(
        "roles/planner/sees", ["cheker"]
    ),
    '"turn_order" is missing': changed("turn_order", None),
    "turn_order is empty": changed("turn_order", []),
    'turn_order: got "editor", expected planner, caller': changed(
        "turn_order", ["planner", "editor"]
    ),
    'role "caller" is not in turn_order (planner), so it would never speak': changed(
        "turn_order", ["planner"]
    ),
    'answer: got "nobody", expected planner, caller': changed("answer", "nobody"),
    'approval: got "caller", expected another role': changed("approval", "caller"),
    'unknown field "tool", expected instructions, sees': changed("roles/caller/tool", ["send"]),
    'role "caller": tools: got "sned", expected a function of the tasks: send': changed(
        "roles/caller/tools", ["sned"]
    ),
    'role "planner": knows: got "adresses", expected a piece of the tasks\' knowledge: addresses, '
    "boxes": changed("roles/planner/knows", ["adresses"]),
    "rewards: team: got 'much', expected a number": changed(
        "roles/caller/rewards", {"team": "much"}
    ),
    "max_messages: got 0, expected a whole number": changed("max_messages", 0),
    'roles: "user" is no name of a role': changed("roles/user", {}),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_named_in_one_line(message: str, tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    path.write_text(json.dumps(MISTAKES[message]))
    with pytest.raises(TeamError) as caught:
        TeamEnv(team=path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.json", "{", "cannot be parsed"),
        ("t.yaml", "a: [", "cannot be parsed"),
        ("t.json", "[1]", "expected an object with roles"),
        ("t.txt", "", "expected a .json or .yaml file, or one of planner_caller"),
    ],
)
def test_what_is_no_team_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TeamError, match=message):
        load_team(tmp_path / name)
    with pytest.raises(TeamError, match="cannot be read: No such file"):
        load_team(tmp_path / "missing.json")


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    as_json, as_yaml = tmp_path / "t.json", tmp_path / "t.yaml"
    as_json.write_text(json.dumps(GOOD))
    as_yaml.write_text(
        "roles:\n  planner: {knows: [addresses]}\n  caller: {sees: [planner], tools: all}\n"
        "turn_order: [planner, caller]\nanswer: caller\n"
    )
    one, other = load_team(as_json), load_team(as_yaml)
    assert (one.roles, one.turn_order, one.answer) == (other.roles, other.turn_order, other.answer)


@pytest.mark.parametrize("name", BUILT_IN_TEAMS)
def test_built_in_teams_can_play(name: str) -> None:
    env = TeamEnv(team=name)
    _, info = env.reset(seed=0)
    assert info["role"] == env.team.turn_order[0]
