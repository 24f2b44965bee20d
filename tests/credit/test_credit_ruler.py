"""Branched truth equals the closed form, and branches begin with the episode's own tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import comb
from typing import Any

import gymnasium
import numpy as np
import pytest
from tiny_models import tiny_tokenizer
from transformers import AutoTokenizer

from fctncalling.algorithms.generation.engine_api import Engine, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.credit.estimators import leave_one_out_group_values
from fctncalling.lab.credit.ruler import BranchedTruth, BranchPlayer, RulerSettings, measure_truth

STEPS, NEEDED, CLIMBS = 4, 3, 0.6


class Ladder(gymnasium.Env[str, str]):
    """Four actions, "up" or "stay"; pays 1 at the end for three or more steps up."""

    def __init__(self) -> None:
        self.height = self.number = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.height = self.number = 0
        return "", {"messages": [{"role": "user", "content": "climb"}], "turn": 0}

    def step(self, action: str) -> Any:
        self.height += action == "up"
        self.number += 1
        ended = self.number == STEPS
        messages = [{"role": "user", "content": f"height {self.height}"}]
        paid = float(ended and self.height >= NEEDED)
        return "", paid, ended, False, {"messages": messages, "turn": 0}

    def get_state(self) -> dict[str, Any]:
        return {"height": self.height, "number": self.number}

    def set_state(self, state: dict[str, Any]) -> None:
        self.height, self.number = state["height"], state["number"]


def true_value(height: int, number: int, discount: float) -> float:
    left = STEPS - number
    wins = sum(
        comb(left, ups) * CLIMBS**ups * (1 - CLIMBS) ** (left - ups)
        for ups in range(max(0, NEEDED - height), left + 1)
    )
    return wins * discount ** (left - 1)


def ladder_player(settings: RulerSettings, template: ChatTemplate | None = None) -> BranchPlayer:
    """Return a player that writes letter by letter where it is given a template."""
    tokenizer = template and template.tokenizer

    def letters(text: str) -> list[int]:
        pieces = [text[0], *(f"##{letter}" for letter in text[1:])]
        return [int(piece) for piece in tokenizer.convert_tokens_to_ids(pieces)]

    own = letters if template else None
    template = template or ChatTemplate(tiny_tokenizer())
    generator = np.random.default_rng(5)

    @contextlib.contextmanager
    def engine() -> Iterator[Engine]:
        def policy(*_: Any) -> str:
            return "up" if generator.random() < CLIMBS else "stay"

        yield ScriptedEngine(policy, own or template.encode, template.end_of_turn_id)

    return BranchPlayer(Ladder, engine, template, settings)


@pytest.fixture(scope="module")
def truth() -> BranchedTruth:
    settings = RulerSettings(group_size=12, discount=0.9, standard_error=0.05, max_branches=400)
    return measure_truth(ladder_player(settings), ["climb"])


def test_branched_values_are_the_closed_form(truth: BranchedTruth) -> None:
    for snapshots, values, variances in zip(
        truth.snapshots, truth.values, truth.value_variances, strict=True
    ):
        for snapshot, value, variance in zip(snapshots, values, variances, strict=True):
            expected = true_value(snapshot.state["height"], snapshot.state["number"], 0.9)
            assert abs(value - expected) < 4 * variance**0.5
    errors = np.concatenate(truth.standard_errors())
    assert np.mean(errors <= 0.05) >= 0.9


def test_advantages_are_the_closed_form(truth: BranchedTruth) -> None:
    advantages, errors = truth.advantages(), truth.standard_errors()
    for snapshots, at, error in zip(truth.snapshots, advantages, errors, strict=True):
        for snapshot, advantage, spread in zip(snapshots, at, error, strict=True):
            height, number = snapshot.state["height"], snapshot.state["number"]
            last = number == STEPS - 1
            after = [
                float(height + up >= NEEDED)
                if last
                else 0.9 * true_value(height + up, number + 1, 0.9)
                for up in (0, 1)
            ]
            expected = [each - true_value(height, number, 0.9) for each in after]
            assert min(abs(advantage - each) for each in expected) < 4 * spread + 1e-9


def test_every_branch_begins_with_the_tokens_of_its_episode(truth: BranchedTruth) -> None:
    assert truth.same_prefixes == truth.num_states > STEPS


def test_a_branch_keeps_tokens_that_the_template_would_not_write() -> None:
    template = ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("model"))))
    assert len(template.encode("stay")) < len("stay")
    settings = RulerSettings(group_size=2, min_branches=2, max_branches=2)
    found = measure_truth(ladder_player(settings, template), ["climb"])
    assert found.same_prefixes == found.num_states >= STEPS


def test_a_histories_value_is_measured_once(truth: BranchedTruth) -> None:
    first = {id(snapshots[0]) for snapshots in truth.snapshots}
    assert len(first) == 12
    assert len({float(values[0]) for values in truth.values}) == 1


def test_an_episode_is_no_witness_of_its_own_states(truth: BranchedTruth) -> None:
    values = leave_one_out_group_values(truth)
    won = [float(rewards.sum()) * 0.9 ** (STEPS - 1) for rewards in truth.rewards]
    for number, siblings in enumerate(values["siblings"]):
        others = [each for other, each in enumerate(won) if other != number]
        assert siblings[0] == pytest.approx(np.mean(others))
        assert values["state"][number][0] == pytest.approx(np.mean(others))  # all began there
        for step, snapshot in enumerate(truth.snapshots[number]):
            visits = [
                other
                for other, snapshots in enumerate(truth.snapshots)
                if other != number and snapshots[step].state_hash == snapshot.state_hash
            ]
            assert values["matched"][number][step] == bool(visits)
