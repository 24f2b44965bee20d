"""Two processes that share out the work, each with whole weights or with parts of them, are one
process.

They meet over gloo in a program of their own, two_processes.py; what they came to is compared with
one process here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from two_processes import CASES, UNSHARDED, gradients, learned, supervised

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.distributed.process_group import (
    SINGLE_PROCESS,
    ProcessGroup,
    init_process_group,
)

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


def test_a_rollout_in_bf16_gathers_layers_in_bf16_and_samples_the_same(
    found: list[dict[Any, Any]],
) -> None:
    for process in found:
        got = process["gathered"]
        assert got["bf16"] == got["whole"]  # to the last bit
        for (_, ours), (_, theirs) in zip(got["modules"], got["whole"], strict=True):
            assert ours[0] == pytest.approx(theirs[0], abs=0.05)  # rounded elsewhere
        layers = {n for n in got["dtypes"] if "_proj" in n and "lora_" not in n}
        assert layers == {n for n, it in got["dtypes"].items() if it == torch.bfloat16}
        assert len(layers) == 14
        assert all(name.startswith("model.") for name in got["dtypes"])  # no critic


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
