"""The page of the real model: its sentences say what the stored answers and runs do."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from safetensors import safe_open

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/evidence/real_model.md"
TABLES = runpy.run_path(str(ROOT / "docs/real_model_tables.py"))


def test_shares_and_changes_are_counted_by_hand() -> None:
    def answers(digits: str) -> dict[str, dict[str, bool]]:
        return {
            f"multiple_{number}": {"valid": digit != "0", "strict": digit == "2"}
            for number, digit in enumerate(digits)
        }

    # Wilson for 1 of 10: (0.1 + 0.19207 +- 1.96 sqrt(0.009 + 0.0096035)) / 1.38415
    assert TABLES["share"](answers("1000000000")) == "10.0[1.8,40.4]/0.0"
    # Of 6 changes one or none is lost by chance in 2 * (1 + 6) / 64 of all cases.
    paired = TABLES["paired"](answers("1000000"), answers("0211110"))
    assert paired == "5 gained, 1 lost (p = 0.2)"


def test_without_shares_some_updates_drew_no_irrelevance_task() -> None:
    updates = {}
    for name in ("forged_1800_more_tppo_1", "forged_1800_mixed_tppo_1"):
        lines = (ROOT / f"results/kept/smollm2/{name}/metrics.jsonl").read_text("utf-8")
        metrics = [json.loads(line) for line in lines.splitlines()]
        updates[name] = [it for it in metrics if "env/success_rate" in it]
    more, mixed = (
        [it.get("env/success_rate/irrelevance") for it in of_row] for of_row in updates.values()
    )
    assert (len(more), len(mixed)) == (18, 18)
    first = more.index(None)
    assert first > 0
    assert more[: first + 4] == [1.0] * first + [None] * 4
    assert more.count(None) == 4
    assert None not in mixed


def test_the_kept_adapter_is_one_of_every_linear_layer_of_the_model() -> None:
    folder = ROOT / "results/kept/smollm2/multi_turn_adapter"
    settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    assert settings["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    with safe_open(folder / "adapter_model.safetensors", "pt") as weights:
        names = weights.keys()
        shapes = {name: weights.get_slice(name).get_shape() for name in names}
    assert len(shapes) == 30 * len(settings["target_modules"]) * 2 == 420
    assert all(settings["r"] in shape for shape in shapes.values())


def test_the_branched_credit_is_of_as_many_branches_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    folder = ROOT / "results/kept/smollm2/multi_turn_tppo_1"
    truth = json.loads((folder / "credit.json").read_text("utf-8"))["truth"]
    assert f"states of {truth['episodes']} episodes" in text
    assert f"{truth['branches']:,} times" in text
    assert truth["tasks"] == 6


def test_no_arm_gained_five_points_on_forged_tests() -> None:
    figures = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))
    rows = ("supervised_1500", *figures["ARMS"], "mean_of_arms")
    start, *arms = (
        sum(it["strict"] for it in figures["answers_of"](row) if it["tests"] == "test")
        for row in rows
    )
    assert max(arms) < start + 10  # of 200


def test_a_higher_rate_unlearned_as_many_tests_as_the_recipe_tells() -> None:
    recipe = (ROOT / "recipes/smollm2_multi_turn_cpu.sh").read_text("utf-8").replace("\n# ", " ")
    told = re.search(
        r"TPPO solved after five updates (\d+), GRPO after four (\d+) of (\d+) forged tests, of "
        r"which the start solves (\d+)",
        recipe,
    )
    answers_of = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"]
    start = {it["id"]: it["strict"] for it in answers_of("supervised_1500")}
    file = ROOT / "results/kept/smollm2/multi_turn_high_rate.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    rows = [[it for it in lines if it["row"] == row] for row in ("tppo_1", "grpo_1")]
    assert {it["id"] for it in rows[0]} == {it["id"] for it in rows[1]}
    solved = [sum(it["strict"] for it in row) for row in rows]
    found = [*solved, len(rows[0]), sum(start[it["id"]] for it in rows[0])]
    assert found == list(map(int, told.groups()))


def test_rollout_and_update_differed_on_a_gpu_by_as_much_as_the_page_tells() -> None:
    page = " ".join((ROOT / "docs/evidence/performance.md").read_text("utf-8").split())
    told = re.search(r"update differed by ([\d.]+) nats", page)[1]
    file = ROOT / "results/kept/smollm2/multi_turn_mixture_grpo_1/metrics.jsonl"
    lines = map(json.loads, file.read_text("utf-8").splitlines())
    found = [it["mismatch/mean_logdiff"] for it in lines if "mismatch/mean_logdiff" in it]
    assert f"{sum(found) / len(found):.4f}" == told
