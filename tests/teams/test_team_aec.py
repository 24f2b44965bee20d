"""TeamAECEnv: PettingZoo's own tests, and the same game as TeamEnv's."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

INSTALLED_APART = Path(os.environ.get("FCTNCALLING_PETTINGZOO", "/nonexistent"), "bin", "python")


def named(accepted: dict[str, list[str]]) -> str:
    """The first accepted value of each argument, as a call names them."""
    return ", ".join(f"{name}='{values[0]}'" for name, values in accepted.items())


@pytest.mark.prove
def test_pettingzoos_tests_pass_where_it_is_installed_apart() -> None:
    if not INSTALLED_APART.exists():
        pytest.skip("FCTNCALLING_PETTINGZOO names no environment with pettingzoo")
    command = [INSTALLED_APART, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [__file__, "tests/test_code_blocks.py", "-k", "pettingzoo or environment.md"]
    command += ["-m", "not prove", "-rs"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_pettingzoos_api_seed_and_render_tests_pass() -> None:
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import api_test, render_test, seed_test

    from fctncalling.lab.integrations.pettingzoo import TeamAECEnv

    for team in ("parcels", "parcels_alone"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts are no arrays, which it would rather have
            api_test(TeamAECEnv(team=team), num_cycles=40)
            seed_test(lambda team=team: TeamAECEnv(team=team), num_cycles=20)
            render_test(partial(TeamAECEnv, team=team))


def test_a_person_sees_the_conversation_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pettingzoo")
    from fctncalling.lab.integrations.pettingzoo import TeamAECEnv

    texts: list[str | None] = []
    for mode in ("ansi", "human"):
        env = TeamAECEnv(render_mode=mode)
        env.reset(seed=3)
        env.step("These are the words.")
        texts.append(env.render())
    assert "These are the words." in str(texts[0])
    assert texts[1] is None
    assert capsys.readouterr().out == f"{texts[0]}\n"


def test_rewards_of_all_agents_follow_the_gymnasium_view() -> None:
    pytest.importorskip("pettingzoo")
    from fctncalling.lab.integrations.pettingzoo import TeamAECEnv

    env = TeamAECEnv()
    for task in env.env.tasks[:5]:
        env.reset(options={"task_id": task.id})
        send = task.ground_truth[0]["send"]  # type: ignore[index]
        texts = iter(["words", f"[send({named(send)})]"])
        total, seen = dict.fromkeys(env.possible_agents, 0.0), []
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, info = env.last()
            total[agent] += reward
            seen.append((agent, observation["text"] if not terminated else ""))
            env.step(None if terminated or truncated else next(texts))
        assert total == {"planner": 1.0, "caller": 1.0}
        assert info["verdict"].valid
        assert [agent for agent, _ in seen] == ["planner", "caller", "planner", "caller"]
        assert "planner: words" in seen[1][1]


def test_without_pettingzoo_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "from fctncalling.envs.errors import MissingExtra\n"
        "try: import fctncalling.lab.integrations.pettingzoo\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'fctncalling[multi-agent]'" in done.stdout
