"""docs/real_model.md: its figures are those of the stored answers."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open

from fctncalling.lab.credit.grades import explained_variance

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/real_model.md"
RECORD = ROOT / "results/kept/smollm2/FORMER_FORGE.md"
TABLES = runpy.run_path(str(ROOT / "docs/real_model_tables.py"))


def test_every_table_of_the_page_is_that_of_the_stored_answers() -> None:
    tables = {
        PAGE: ["rows", "pairs", "live", "multi_turn"],
        RECORD: ["former", "former_pairs"],
    }
    for file, names in tables.items():
        text = file.read_text("utf-8")
        assert re.findall(r"<!-- table (\w+) -->", text) == names
        assert TABLES["with_tables"](text) == text


def test_the_changes_of_the_three_seeds_are_those_of_the_record() -> None:
    rows = re.findall(
        r"`former_forged` -> `former_forged_tppo_\d` \| (\d+) gained, (\d+) lost \(p = ([\d.]+)\)",
        RECORD.read_text("utf-8"),
    )
    [(gained, lost, chance), *others] = rows
    told = f"{gained} gained, {lost} lost (p = {chance}); " + "; ".join(
        f"{gained} and {lost} ({chance})" for gained, lost, chance in others
    )
    assert told in PAGE.read_text("utf-8").replace("\n", " ")


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


@pytest.mark.parametrize("model", ["former_forged_tppo_1", "former_all"])
def test_the_clean_tasks_of_the_former_rows_are_those_of_todays_split(model: str) -> None:
    calls = TABLES["chosen"](model, "test", ("simple_python", "multiple"))
    irrelevance = TABLES["chosen"](model, "test", ("irrelevance",))
    assert (len(calls), len(irrelevance)) == (113, 94)


def test_stored_runs_have_the_explained_variance_that_the_page_tells() -> None:
    low, high = re.search(
        r"The critic's explained variance was (-?[\d.]+) to (-?[\d.]+[\d])",
        PAGE.read_text("utf-8").replace("\n", " "),
    ).groups()
    values = [
        value
        for file in sorted((ROOT / "results/kept/smollm2").glob("f*tppo_*/metrics.jsonl"))
        + sorted((ROOT / "results/kept/smollm2").glob("*trial_*/metrics.jsonl"))
        for line in file.read_text("utf-8").splitlines()
        if (value := json.loads(line).get("losses/explained_variance")) is not None
    ]
    assert (f"{min(values):.2f}", f"{max(values):.2f}") == (low, high)
    assert sum(value <= 0 for value in values) > 0.75 * len(values)


def test_without_shares_as_many_updates_drew_no_irrelevance_task_as_the_page_tells() -> None:
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
    assert "drew no irrelevance task in four updates, as all were solved" in " ".join(
        PAGE.read_text("utf-8").split()
    )


def test_the_model_of_whole_turns_solved_as_many_official_tasks_as_the_page_tells() -> None:
    valid, number = re.search(
        r"solved (\d+) of (\d+) official base tasks", PAGE.read_text("utf-8").replace("\n", " ")
    ).groups()
    found = TABLES["stored_answers"]()["multi_turn_whole_turns"].values()
    assert {each["id"].rsplit("_", 1)[0] for each in found} == {"multi_turn_base"}
    assert (sum(each["valid"] for each in found), len(found)) == (int(valid), int(number))


def test_the_multi_turn_row_fails_and_declines_as_often_as_the_page_tells() -> None:
    text = PAGE.read_text("utf-8").replace("\n", " ")
    answers_of = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"]
    before, after = answers_of("supervised"), answers_of("mixture")
    told = map(
        int, re.search(r"declines (\d+) of (\d+) irrelevance tasks \S+ (\d+)", text).groups()
    )
    declined, number, declined_before = told
    valid = [[it["valid"] for it in row if it["tests"] == "irrelevance"] for row in (before, after)]
    assert [sum(each) for each in valid] == [declined_before, declined]
    assert len(valid[0]) == len(valid[1]) == number


def test_the_row_of_the_kept_adapter_declines_as_the_page_tells() -> None:
    text = PAGE.read_text("utf-8").replace("\n", " ")
    answers = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"](
        "supervised_1500"
    )
    told = int(re.search(r"having seen none, `supervised_1500` (\d+)\)", text)[1])
    declined = [it["valid"] for it in answers if it["tests"] == "irrelevance"]
    assert (sum(declined), len(declined)) == (told, 100)
    solved, number = map(int, re.search(r"strictly (\d+) of (\d+) miss_func tasks", text).groups())
    withheld = [it["strict"] for it in answers if "miss_func" in it["id"]]
    assert (sum(withheld), len(withheld)) == (solved, number)


def test_the_kept_adapter_is_one_of_every_linear_layer_of_the_model() -> None:
    folder = ROOT / "results/kept/smollm2/multi_turn_adapter"
    settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    assert settings["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    with safe_open(folder / "adapter_model.safetensors", "pt") as weights:
        names = weights.keys()
        shapes = {name: weights.get_slice(name).get_shape() for name in names}
    assert len(shapes) == 30 * len(settings["target_modules"]) * 2 == 420
    assert all(settings["r"] in shape for shape in shapes.values())


def test_the_mixture_solves_as_many_official_tasks_counted_once_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    once = re.search(r"solves (\d+) of (\d+) official ones; (\d+) ", text)
    answers_of = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"]
    official = [it for it in answers_of("mixture") if it["tests"] == "official"]
    tasks = {it["id"].rsplit("_", 1)[1] for it in official}
    solved = {it["id"].rsplit("_", 1)[1] for it in official if it["valid"]}
    assert (len(solved), len(tasks)) == (int(once[1]), int(once[2]))


def change(before: str, after: str, tests: str, verdict: str) -> str:
    """Return "15 and 6 (0.08)": tests gained and lost between two rows, and the sign test's p."""
    answers_of = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"]
    first, second = (
        {it["id"]: it[verdict] for it in answers_of(row) if it["tests"] == tests}
        for row in (before, after)
    )
    assert first.keys() == second.keys()
    gained = sum(second[name] > first[name] for name in first)
    lost = sum(second[name] < first[name] for name in first)
    return f"{gained} and {lost} ({TABLES['RESULTS_PAGE']['sign_test'](gained, lost):.1g})"


def test_the_arms_change_as_many_tests_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    figures = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))
    answers_of, arms = figures["answers_of"], figures["ARMS"]

    forged = [change("supervised_1500", row, "test", "strict") for row in arms]
    named = ", ".join(f"`{row}` {it}" for row, it in zip(arms, forged, strict=True))
    assert f"gained and lost of the forged tests, strictly (p): {named};" in text
    official = [change("supervised_1500", row, "official", "valid") for row in arms]
    assert f"of official ones, by BFCL's verdict: {', '.join(official)}." in text
    longer = [
        change("supervised_1500", "state_1_at_20", *which)
        for which in (("test", "strict"), ("official", "valid"))
    ]
    assert "Gone on to 20 updates, `state_1` has {}, official {}.".format(*longer) in text
    rows = ("supervised_1500", *arms)
    solved = [sum(it["strict"] for it in answers_of(row) if it["tests"] == "test") for row in rows]
    assert max(solved) < solved[0] + 10  # 5 points of 200 tests


def test_arms_lose_as_many_tests_by_one_habit_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    told = re.search(
        r"(\d+) of `rloo_1`'s (\d+) call `(\w+)`, a name cut short; (\d+) of `appo_1`'s (\d+) "
        r"no longer look up a company's symbol",
        text,
    ).groups()
    answers_of = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"]
    start, *arms = (
        {it["id"]: it for it in answers_of(row) if it["tests"] == "test"}
        for row in ("supervised_1500", "rloo_1", "appo_1")
    )
    lost = [[it for it in start if start[it]["strict"] and not arm[it]["strict"]] for arm in arms]

    def calls(row: Mapping[str, Any], test: str, name: str) -> bool:
        return f"{name}(" in str(row[test]["response"])

    assert not any(calls(start, it, told[2]) for it in start)
    cut = [it for it in lost[0] if calls(arms[0], it, told[2])]
    name = "get_symbol_by_name"
    unasked = [it for it in lost[1] if calls(start, it, name) and not calls(arms[1], it, name)]
    found = (len(cut), len(lost[0]), len(unasked), len(lost[1]))
    assert found == tuple(map(int, (*told[:2], *told[3:])))


def strictly_solved(row: str) -> NDArray[np.float64]:
    """Return which forged tests a row solves strictly, in the order of their ids."""
    answers = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))["answers_of"](row)
    strict = {it["id"]: it["strict"] for it in answers if it["tests"] == "test"}
    return np.array([strict[name] for name in sorted(strict)], dtype=float)


def change_in_points(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the mean change from rows to rows with its interval: a bootstrap over tests."""
    first, second = (np.mean([strictly_solved(row) for row in rows], 0) for rows in (before, after))
    changes = 100 * (second - first)
    means = changes[np.random.default_rng(0).integers(0, 200, (4000, 200))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{changes.mean():.1f} [{low:.1f},{high:.1f}]"


def test_three_seeds_change_as_much_on_the_mean_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    figures = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))
    states, grpo = (
        change_in_points(["supervised_1500"], figures[method]) for method in ("STATE", "GRPO")
    )
    more = change_in_points(figures["STATE"], figures["GRPO"])
    assert f"by states {states}, GRPO {grpo}, {more} more (bootstrap over tests)" in text


def test_the_mean_of_arms_changes_as_many_tests_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    figures = runpy.run_path(str(ROOT / "docs/multi_turn_figures.py"))
    later = ("appo_1", "state_3", "grpo_3")  # not of the mean
    arms = [row for row in figures["ARMS"] if row not in later]
    forged = change("supervised_1500", "mean_of_arms", "test", "strict")
    official = change("supervised_1500", "mean_of_arms", "official", "valid")
    assert f"(`export --average_with`; without `appo_1`, third seeds): {forged}, " in text
    assert f"official {official}. Of TPPO's five: " in text
    points, of_tppo = (
        change_in_points(["supervised_1500"], [row]).replace(" ", " points ")
        for row in ("mean_of_arms", "mean_of_tppo")
    )
    tppo = change("supervised_1500", "mean_of_tppo", "test", "strict")
    assert f"five: {tppo}, {of_tppo}." in text
    more = change_in_points(arms, ["mean_of_arms"])
    assert f", {points}, hardly of names held out; {more} over its arms" in text
    unseen = [
        sum(it["strict"] for it in figures["answers_of"](row) if it.get("names") == "held_out")
        for row in ("supervised_1500", "mean_of_arms")
    ]
    assert unseen[1] == unseen[0] + 1
    assert strictly_solved("mean_of_arms").sum() > max(strictly_solved(row).sum() for row in arms)


def test_the_critic_of_the_arm_explains_as_much_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    told = re.search(
        r"explains (\.\d+) \(`state_2`'s (\.\d+), `state_3`'s (\.\d+), `appo_1`'s (\.\d+)\) of "
        r"held-out returns before the first policy step, "
        r"(\.\d+) in turn 1, (\.\d+) in turn 2, nothing later",
        text,
    )
    name = "critic_fit/explained_variance"
    fits = [
        next(it for it in map(json.loads, file.read_text("utf-8").splitlines()) if name in it)
        for row in ("tppo_1", "state_2", "state_3", "appo_1")
        for file in [ROOT / f"results/kept/smollm2/multi_turn_{row}/metrics.jsonl"]
    ]
    fit = fits[0]
    found = [*(it[name] for it in fits), *(fit[f"{name}/{turn}"] for turn in ("turn_1", "turn_2"))]
    assert [f"{it:.2f}".lstrip("0") for it in found] == list(told.groups())
    assert max(value for key, value in fit.items() if re.search(r"/turn_[3-9]", key)) < 0


def test_the_branched_credit_of_the_arms_start_is_as_good_as_the_page_tells() -> None:
    """The figures of all six tasks, as `credit` wrote them."""
    text = " ".join(PAGE.read_text("utf-8").split())
    folder = ROOT / "results/kept/smollm2/multi_turn_tppo_1"
    grades = json.loads((folder / "credit.json").read_text("utf-8"))
    values, estimators = grades["values"], grades["estimators"]

    def short(number: float) -> str:
        return f"{number:.2f}".replace("0.", ".")

    def told(row: Mapping[str, Any], key: str, interval: str) -> str:
        return f"{short(row[key])} [{','.join(map(short, row[interval]))}]"

    critic = values["critic"]
    turns = ", ".join(short(critic["by_turn"][turn]) for turn in "0123")
    state, others = (short(values[name]["explained_variance"]) for name in ("state", "siblings"))
    of_critic = told(critic, "explained_variance", "interval")
    assert (
        f"explains {of_critic} of true values, by turn {turns}; matched states {state}, the "
        f"group's others {others}" in text
    )
    tppo, matched, grpo = (
        told(estimators[name], "cosine", "cosine_interval")
        for name in ("TPPO", "TPPO_state", "GRPO")
    )
    assert f"cosine of {tppo} with the true ones, by states {matched}, GRPO's {grpo}" in text
    truth, shares = grades["truth"], grades["truth"]["return_variance"]
    assert f"{truth['episodes']} episodes of six tasks" in text
    assert f"{truth['branches']:,} branches" in text
    assert truth["tasks"] == 6
    assert f"{shares['between_tasks']:.0%}".replace("%", " %") + " of that of returns" in text
    first, second, *later = shares["by_turn"].values()
    assert f"{100 * first:.0f} % in turn 1, {100 * second:.0f} % in turn 2" in text
    assert max(map(abs, later)) < 0.005
    matter = round(truth["significant"] * truth["actions"])
    assert f"{matter} of {truth['actions']} actions matter" in text


def test_tasks_that_the_critic_was_not_fitted_to_are_told_apart() -> None:
    """From the kept actions: the grades of all tasks, then those of the three others."""
    text = " ".join(PAGE.read_text("utf-8").split())
    folder = ROOT / "results/kept/smollm2/multi_turn_tppo_1"
    grades = json.loads((folder / "credit.json").read_text("utf-8"))
    lines = (folder / "credit_actions.jsonl").read_text("utf-8").splitlines()
    episodes = [json.loads(line) for line in lines]

    def figures(chosen: Sequence[Mapping[str, Any]]) -> list[float]:
        flat = {
            name: np.concatenate([it[name] for it in chosen])
            for name in ("V", "A", "critic", "TPPO", "TPPO_state", "GRPO")
        }
        cosines = [np.corrcoef(flat["A"], flat[it])[0, 1] for it in ("TPPO", "TPPO_state", "GRPO")]
        return [explained_variance(flat["V"], flat["critic"]), *cosines]

    kept = [grades["values"]["critic"]["explained_variance"]]
    kept += [grades["estimators"][it]["cosine"] for it in ("TPPO", "TPPO_state", "GRPO")]
    assert figures(episodes) == pytest.approx(kept, abs=1e-3)
    others = [it for it in episodes if not it["in_warm_up"]]
    assert len({it["task_id"] for it in others}) == 3
    critic, *cosines = (f"{it:.2f}".lstrip("0") for it in figures(others))
    assert f"On the other three tasks: {critic}; {', '.join(cosines)}." in text


def test_as_much_of_the_arms_returns_lies_between_tasks_as_the_page_tells() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    share, number = re.search(
        r"between tasks \((\.\d+) over (\d+) groups of the arms\)", text
    ).groups()
    file = ROOT / "results/kept/smollm2/multi_turn_returns.jsonl"
    groups = [json.loads(line)["returns"] for line in file.read_text("utf-8").splitlines()]
    assert len(groups) == int(number)
    within = fmean(map(variance, groups))
    between = variance(map(fmean, groups)) - within / 8
    assert f"{between / (between + within):.2f}".lstrip("0") == share


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


def test_the_critics_features_explain_as_much_as_the_page_tells() -> None:
    told = re.search(
        r"head explains (\.\d+) from hidden states, (\.\d+) from how far the episode is along the "
        r"truth \(`--critic_sees progress`\), (\.\d+) from both",
        " ".join(PAGE.read_text("utf-8").split()),
    )
    lines = (ROOT / "results/kept/smollm2/multi_turn_critic.jsonl").read_text("utf-8").splitlines()
    kept = {it["features"]: it for it in map(json.loads, lines) if it["critic_sees"] == "progress"}
    names = ("hidden states", "progress", "both")
    found = [round(kept[f"value head: {name}"]["explained_variance"], 2) for name in names]
    assert found == list(map(float, told.groups()))


def test_rollout_and_update_differed_on_a_gpu_by_as_much_as_the_scaling_page_tells() -> None:
    told = re.search(r"differed by ([\d.]+) nats", (ROOT / "docs/scaling.md").read_text("utf-8"))[1]
    file = ROOT / "results/kept/smollm2/multi_turn_mixture_grpo_1/metrics.jsonl"
    lines = map(json.loads, file.read_text("utf-8").splitlines())
    found = [it["mismatch/mean_logdiff"] for it in lines if "mismatch/mean_logdiff" in it]
    assert f"{sum(found) / len(found):.4f}" == told
