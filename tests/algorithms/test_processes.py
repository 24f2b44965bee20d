"""Two processes that share out the work, each with whole weights or with parts of them, are one
process.

They meet over gloo in a program of their own, two_processes.py; what they came to is compared with
one process here.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM
from two_processes import CASES, UNSHARDED, gradients, learned, supervised

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.distributed.process_group import (
    SINGLE_PROCESS,
    ProcessGroup,
    init_process_group,
)
from fctncalling.algorithms.distributed.sharded_layout import sharded_experience
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord

torch.set_num_threads(1)

KINDS = ("data parallel", "sharded")
RUN = "whole model"
PAIRS = [
    pytest.param(kind, case, marks=[pytest.mark.prove] * (case != RUN))
    for kind in KINDS
    for case in CASES
    if kind != "sharded" or case not in UNSHARDED
]


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> list[dict[Any, Any]]:
    """Return what each of the two processes came to, in every case that is asked for."""
    folder = tmp_path_factory.mktemp("meeting")
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if hasattr(item, "callspec")
        and "case" in item.callspec.params
        and item.fspath == request.node.fspath
    ]
    program = [
        sys.executable,
        str(Path(__file__).parents[1] / "support" / "two_processes.py"),
        str(folder),
        *sorted({*cases, RUN}),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"found_{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize(("kind", "case"), PAIRS)
def test_both_processes_have_the_gradient_of_one(
    found: list[dict[Any, Any]], kind: str, case: str
) -> None:
    wanted = gradients(case, SINGLE_PROCESS)
    for process in found:
        got = process[kind, case]["gradients"]
        assert got.keys() == wanted.keys()
        assert any(bool(gradient.any()) for gradient in wanted.values())
        for name, gradient in wanted.items():
            torch.testing.assert_close(
                got[name], gradient, rtol=1e-5, atol=1e-6 * float(gradient.abs().max())
            )


@pytest.mark.parametrize(("kind", "case"), PAIRS)
def test_after_two_updates_both_have_the_weights_and_the_figures_of_one(
    found: list[dict[Any, Any]], kind: str, case: str
) -> None:
    wanted = learned(case, SINGLE_PROCESS)
    for process in found:
        got = process[kind, case]
        for name, weight in wanted["weights"].items():
            torch.testing.assert_close(got["weights"][name], weight, rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(got["metrics"], wanted["metrics"], strict=True):
            # each process pads what it has of a minibatch
            theirs = {**theirs, "perf/padding_share": ours["perf/padding_share"]}
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    assert all(
        torch.equal(found[0][kind, case]["weights"][n], w)
        for n, w in found[1][kind, case]["weights"].items()
    )


@pytest.mark.parametrize(("kind", "case"), PAIRS)
def test_both_processes_meet_equally_often(
    found: list[dict[Any, Any]], kind: str, case: str
) -> None:
    first, second = (process[kind, case]["collectives"] for process in found)
    assert first == second
    assert sum(first.values()) > 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_two_processes_is_gone_on_from_bit_for_bit(
    found: list[dict[Any, Any]], kind: str
) -> None:
    for process in found:
        whole, cut = process[kind, RUN], process[kind, "resumed"]
        assert whole["metrics"] == cut["metrics"]
        assert whole["weights"].keys() == cut["weights"].keys()
        assert all(
            torch.equal(cut["weights"][name], weight) for name, weight in whole["weights"].items()
        )


def test_sharded_weights_are_written_as_the_model_that_transformers_loads(
    found: list[dict[Any, Any]],
) -> None:
    folder = found[0]["folder"]
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder)
    weights = {f"model.{name}": weight for name, weight in loaded.named_parameters()}
    assert len(list(Path(folder).glob("*.safetensors"))) > 2
    for process in found:
        assert process["handed over"].keys() == weights.keys()
        assert all(torch.equal(process["handed over"][name], it) for name, it in weights.items())


@pytest.mark.parametrize("kind", KINDS)
def test_supervised_steps_of_two_processes_are_those_of_one(
    found: list[dict[Any, Any]], kind: str
) -> None:
    wanted = supervised(SINGLE_PROCESS)
    assert len(wanted["metrics"]) == 6
    for process in found:
        got = process[kind, "supervised"]
        for name, weight in wanted["weights"].items():
            torch.testing.assert_close(got["weights"][name], weight, rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(got["metrics"], wanted["metrics"], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("count", "length"), [(1, 3), (2, 5), (3, 3), (4, 2), (2, 0)])
def test_every_item_counts_in_one_process_and_all_have_equally_many(
    count: int, length: int
) -> None:
    shares = [ProcessGroup(rank, count).shard_items(range(length)) for rank in range(count)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(item for share in shares for item, counts in share if counts) == list(
        range(length)
    )


def test_one_process_has_no_one_to_share_weights_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(SettingError, match=r"--fsdp.*torchrun"):
        init_process_group("cpu", fsdp=True)


CPU = torch.device("cpu")
POLICY = torch.nn.Linear(1, 1)  # of which the device counts
# an action: tokens, reward, words, whether it was cut; a row: context and actions, perhaps none
ACTIONS = st.tuples(st.integers(1, 3), st.sampled_from([0.0, 0.1, 1.0]), st.integers(0, 9))
ROWS = st.lists(ACTIONS, max_size=3)
EPISODES = st.lists(
    st.tuples(st.lists(ROWS, min_size=1, max_size=3), st.booleans(), st.booleans()), max_size=7
)


class Together:
    """Several processes in one: each `gather` returns what the others would have given."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given: list[Any] = []

    def run(self, episodes: list[EpisodeRecord]) -> list[Any]:
        for rank in range(self.count):  # first to collect, then to hand out
            with pytest.raises(StopIteration):
                sharded_experience(episodes, POLICY, self._process(rank))
        return [
            sharded_experience(episodes, POLICY, self._process(rank)) for rank in range(self.count)
        ]

    def _process(self, rank: int) -> ProcessGroup:
        processes = ProcessGroup(rank, self.count)

        def gather(value: Any) -> list[Any]:
            if len(self.given) < self.count:
                self.given.append(value)
                raise StopIteration
            return self.given

        processes.gather = gather  # type: ignore[method-assign, assignment]
        return processes


def record(number: int, rows: list[list[tuple[int, float, int]]], counted: bool) -> EpisodeRecord:
    made, words, token = [], list[int](), 10 * number
    for actions in rows:
        row = TokenRecord([1, 2], [False] * 2, [False] * 2, [0.0] * 2, [0.0] * 2)
        for length, reward, num_words in actions:
            words.append(num_words)
            for index in range(length):
                token += 1
                last = index == length - 1
                row.ids.append(token)
                row.acted.append(True)
                row.ends_action.append(last)
                row.rollout_logprobs.append(float("nan") if token % 7 == 0 else -0.1 * token)
                row.rewards.append(reward if last else 0.0)
            row.ids.append(3)
            row.acted.append(False)
            row.ends_action.append(False)
            row.rollout_logprobs.append(0.0)
            row.rewards.append(0.0)
        made.append(row)
    cut = [index for index in range(len(words)) if (index + number) % 3 == 0]
    num_words = words if counted else []
    return EpisodeRecord(f"task_{number}", "world", made, num_words=num_words, cut_actions=cut)


@examples(max_examples=30, deadline=None)
@given(EPISODES, st.integers(2, 4))
def test_each_lays_out_a_share_and_all_have_the_whole(drawn: list[Any], count: int) -> None:
    episodes = [record(number, rows, counted) for number, (rows, counted, _) in enumerate(drawn)]
    for episode, (_, _, invalid) in zip(episodes, drawn, strict=True):
        episode.invalid = invalid
    if not any(not each.invalid and any(any(row.acted) for row in each.rows) for each in episodes):
        return
    whole = build_experience(episodes, CPU)
    for found in Together(count).run(episodes):
        assert found.episodes == whole.episodes
        assert found.lengths == whole.lengths
        assert found.prompt_lengths() == whole.prompt_lengths()
        assert torch.equal(found.starts, whole.starts)
        for name in whole.tokens._fields:
            ours, wanted = getattr(found.tokens, name), getattr(whole.tokens, name)
            assert ours.dtype == wanted.dtype
            assert torch.equal(ours.nan_to_num(9.0), wanted.nan_to_num(9.0)), name
        for ours, wanted in zip(found.rows, whole.rows, strict=True):
            assert np.array_equal(ours.ids, wanted.ids)
            assert np.array_equal(ours.acted, wanted.acted)
        for index in range(len(whole.episodes)):
            assert np.array_equal(found.last_row(index).ids, whole.last_row(index).ids)
        every = list(range(len(whole.rows)))
        for ours, wanted in zip(found.batch(every)[0][:3], whole.batch(every)[0][:3], strict=True):
            assert torch.equal(ours, wanted)


def test_no_process_lays_out_the_episodes_of_another() -> None:
    episodes = [record(number, [[(2, 1.0, 1)]], counted=True) for number in range(5)]
    together = Together(2)
    together.run(episodes)
    assert [part.episode.tolist() for part in together.given] == [[0, 2, 4], [1, 3]]


@examples(max_examples=30, deadline=None)
@given(EPISODES)
def test_a_record_that_travels_is_equal_and_stays_packed_until_it_is_read(drawn: list[Any]) -> None:
    for number, (rows, counted, _) in enumerate(drawn):
        sent = record(number, rows, counted)
        got = pickle.loads(pickle.dumps(sent))
        for row, wanted in zip(got.rows, sent.rows, strict=True):
            assert (row.num_tokens, row.num_acted) == (len(wanted.ids), sum(wanted.acted))
            if any(wanted.acted):
                assert row.first_acted == wanted.acted.index(True)
            assert "ids" not in vars(row)
            assert pickle.dumps(row) == pickle.dumps(wanted)
            assert repr(row) == repr(wanted)  # NaN is not equal to itself
            assert [type(each) for each in row.ids] == [int] * len(row.ids)
        assert repr(copy.deepcopy(sent)) == repr(sent)


@pytest.mark.parametrize(
    "faulty",
    [
        TokenRecord([1, 2], [False, True], [False], [0.0, -1.0], [0.0, 0.0]),
        TokenRecord([1, 2], [False, True], [True, True], [0.0, -1.0], [0.0, 0.0]),
        TokenRecord([1, 2**40], [False, True], [False, True], [0.0, -1.0], [0.5, 0.0]),
    ],
)
def test_a_faulty_record_travels_as_it_is(faulty: TokenRecord) -> None:
    assert pickle.loads(pickle.dumps(faulty)) == faulty
    with pytest.raises(AttributeError, match="nothing"):
        _ = faulty.nothing
