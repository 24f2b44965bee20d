"""The viewer's page in a real browser: every feature driven, no error, nothing loaded.

FCTNCALLING_SCREENSHOTS names a folder for pictures of the pages.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from browsers import OpenPage, chromium
from sample_runs import sample_contents, shifted_mask, tool_text_in_the_loss, write_sample_run

from evaluate_fctncalling import main as evaluate
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.adapt.played import StageAnswers
from fctncalling.lab.adapt.report import AdaptReport, write_report
from fctncalling.lab.conformance.command import deliver
from fctncalling.lab.page.report_page import Bar, ReportTable
from fctncalling.lab.text_environment import TextHistory
from train_fctncalling import main as train

pytestmark = pytest.mark.prove
SMALL = "--log_episodes_interval 1 --save_interval 0 --eval_episodes 16 --episodes_per_update 32"
RUNS = {
    "main": "--num_updates 2 --eval_interval 1",
    "math": "--num_updates 1 --eval_interval 0 --env_name python_math",
    "grpo": "--num_updates 1 --eval_interval 0 --algorithm_name GRPO --group_size 8",
}
MAX_BYTES = 5_000_000
PLANTED = {
    "mask": (shifted_mask, "is trained on"),
    "credit": (lambda: sample_contents(gamma=0.9), "they agree with gamma 0.9"),
    "truncation": (lambda: sample_contents(bootstrap=np.zeros(4)), "trained as if it had ended"),
    "tool text": (tool_text_in_the_loss, "text of a tool is trained on"),
    "rewards": (lambda: sample_contents(rewards_at=5), "action 2"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a main-job run, a python_math run, a GRPO run, answers of `run`, a crashed run."""
    folder = tmp_path_factory.mktemp("pages")
    runs = {name: _trained(folder / name, flags) for name, flags in RUNS.items()}
    runs["answers"] = folder / "answers.jsonl"
    model = embedded_path("held_out").parent
    flags = ["--agent", f"hf:{model / 'model'}", "--dataset_path", str(model / "held_out.json")]
    assert evaluate(["run", *flags, "--limit", "4", "--output", str(runs["answers"])]) == 0
    runs["crashed"] = folder / "crashed"
    shutil.copytree(runs["main"], runs["crashed"])
    (runs["crashed"] / "evaluation.json").unlink()
    (last,) = (runs["crashed"] / "episodes").glob("train_000002.jsonl")
    last.write_text(last.read_text()[:-100])
    shutil.rmtree(runs["crashed"] / "tokens")
    found = {name: folder / f"{name}.html" for name in runs}
    for name, run in runs.items():
        assert evaluate(["view", str(run), "--output", str(found[name])]) == 0
    return found


def _trained(folder: Path, flags: str) -> Path:
    assert train([*SMALL.split(), *flags.split(), "--results_dir", str(folder)]) == 0
    (config,) = (path for path in folder.rglob("config.json") if "checkpoints" not in path.parts)
    return config.parent


@pytest.mark.parametrize("name", ["main", "math", "grpo", "answers", "crashed"])
def test_a_page_is_small_fits_and_loads_nothing(
    name: str, browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    shots = Path(os.environ.get("FCTNCALLING_SCREENSHOTS", tmp_path))
    shots.mkdir(parents=True, exist_ok=True)
    assert pages[name].stat().st_size < MAX_BYTES
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            with OpenPage(browser, pages[name], width=width, scheme=scheme) as page:
                for view in ("episodes", "groups", "updates", "discarded", "run"):
                    page.tab.click(f'[data-view="{view}"]')
                    assert page.value("document.documentElement.scrollWidth") <= width, view
                    assert page.value("document.documentElement.dataset.theme") == scheme
                    page.tab.screenshot(path=shots / f"{name}_{view}_{width}_{scheme}.png")


def test_tokens_formulas_and_the_five_algorithms(browser: Any, pages: dict[str, Path]) -> None:
    with OpenPage(browser, pages["main"]) as page:
        assert page.count(".tok.acted") == page.value("chosenEpisode().tokens.length") > 0
        assert page.count(".tok.ctx[data-token]") == 0, "context carries no number"
        for measure in page.value("measuresOf(chosenEpisode()).map(([name]) => name)"):
            page.tab.select_option("#measure", measure)
            assert page.value("place.m") == measure
        page.tab.locator(".tok.acted").nth(1).click()
        raw = page.value("chosenEpisode().lanes.numbers.raw_advantages[1]")
        own = page.value("page.data.credit")
        shown = page.text(f'#detail [data-algebra="{own}"]').replace("\N{MINUS SIGN}", "-")
        assert f"{raw:.6g}"[:7] in shown
        rows = page.value("Object.keys(chosenEpisode().lanes.credit)")
        assert {own, "TPPO", "POAD", "NTPO", "APPO", "GRPO"} == set(rows)
        assert page.count("#detail [data-algebra]") == len(rows)
        page.tab.click("#compare")
        assert page.count('[data-algorithm="NTPO"]') == page.count(".tok.acted")


HIDDEN = """(algorithm) => {
  const lane = algorithm ? `[data-compared="${place.t}"][data-algorithm="${algorithm}"]`
    : `[data-token="${place.t}"]`;
  const [box, panel, top] = [lane, "#detail", "#top"].map((each) =>
    document.querySelector(each).getBoundingClientRect());
  return box.bottom > panel.top || box.top < top.bottom; }"""


@pytest.mark.parametrize("width", [400, 1280, 1440, 1920])
def test_the_panel_never_hides_the_token_that_opened_it(
    width: int, browser: Any, pages: dict[str, Path]
) -> None:
    """The last token of each episode, in its own lane and in the lowest of those compared.

    An episode that was not learned from has the first lane alone.
    """
    learned = "page.data.episodes.map((each) => [each.id, each.learned])"
    with OpenPage(browser, pages["main"], width=width) as page:
        episodes = page.value(learned)
        own = [pair for pair in episodes if pair[1]][:6]
        others = [pair for pair in episodes if not pair[1]][:6]
        assert own
        assert others
        lanes = [("", ".tok.acted"), ("1", '[data-algorithm="GRPO"]')]
        for name, was_learned in own + others:
            for compare, selector in lanes if was_learned else lanes[:1]:
                page.value(f"go({{ e: {name!r}, t: '', compare: {compare!r} }}, true)")
                page.value("window.scrollTo(0, 0)")
                page.tab.locator(selector).last.click()
                last = page.value("chosenEpisode().tokens.length - 1")
                assert page.value("Number(place.t)") == last
                assert not page.value(f"({HIDDEN})({'GRPO' if compare else ''!r})"), (name, compare)


def test_a_strict_rule_explains_a_return_of_0(browser: Any, tmp_path: Path) -> None:
    run = write_sample_run(tmp_path / "run")
    path = run / "episodes" / "train_000003.jsonl"
    first, *others = map(json.loads, path.read_text().splitlines())
    first |= {"strict_success": False, "strict_error_type": "strict:nested_call", "return": 0.0}
    first["strict_message"] = "step 1 (turn 1): 'ab'"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [first, *others]))
    assert evaluate(["view", str(run)]) == 0
    with OpenPage(browser, run / "view.html", at="#e=train_000003:1") as page:
        assert "strict:nested_call step 2 (turn 2)" in page.text("[data-strict]")
        assert page.text(".head .chip.bad") == "fails strictly"
        assert page.text("#turn-1 .chip") == "passes, not strictly"
        assert "strict:nested_call" in page.text('.list [data-id="train_000003:1"]')
        page.tab.click('[data-view="run"]')
        assert "1 \N{MULTIPLICATION SIGN} strict:nested_call" in page.text("#categories")


CONTRAST = """() => {
  const parse = (text) => {
    const unit = text.startsWith("rgb") ? 255 : 1;
    const [r, g, b, a = 1] = text.match(/[\\d.e-]+/g).map(Number);
    return [r / unit, g / unit, b / unit, a]; };
  const over = ([r, g, b, a], below) => [r, g, b].map((each, at) => a * each + (1 - a) * below[at]);
  const linear = (each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  let worst = [99, ""];
  for (const node of document.querySelectorAll("body *")) {
    if (![...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim())) continue;
    if (!node.checkVisibility() || node.matches("svg *, option")) continue;
    const layers = [];
    for (let at = node; at; at = at.parentElement)
      layers.push(parse(getComputedStyle(at).backgroundColor));
    const back = layers.reverse().reduce((below, layer) => over(layer, below), [1, 1, 1]);
    const front = over(parse(getComputedStyle(node).color), back);
    const [low, high] = [light(back), light(front)].sort((one, other) => one - other);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < worst[0])
      worst = [ratio, `${node.tagName}.${node.className} ${node.textContent.slice(0, 30)}`];
  }
  return worst; }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_a_contrast_of_4_5(
    scheme: str, browser: Any, pages: dict[str, Path]
) -> None:
    """WCAG's AA, also of tokens in the strongest colours of each measure."""
    with OpenPage(browser, pages["main"], scheme=scheme, at="#t=0&compare=1") as page:
        for measure in page.value("measuresOf(chosenEpisode()).map(([name]) => name)"):
            for number in range(4):
                page.value(f"go({{ m: {measure!r}, e: page.data.episodes[{number}].id }}, true)")
                ratio, where = page.value(CONTRAST)
                assert ratio >= 4.5, (measure, where)
        for view in ("groups", "updates", "discarded", "run"):
            page.tab.click(f'[data-view="{view}"]')
            ratio, where = page.value(CONTRAST)
            assert ratio >= 4.5, (view, where)


@pytest.mark.parametrize("name", ["main", "math"])
def test_the_formulas_of_the_page_give_the_trainers_advantages(
    name: str, browser: Any, pages: dict[str, Path]
) -> None:
    """For every token of every episode: own script's recursion against the stored numbers."""
    script = """() => { let worst = 0;
      for (const episode of page.data.episodes) for (const token of episode.tokens)
        for (const name of ["TPPO", "POAD", "NTPO", "APPO"]) {
          if (!episode.lanes.credit[name]) continue;
          const step = name === "APPO" ? actionStep(episode, token.index)
            : tokenStep(episode, token.index, name);
          worst = Math.max(worst, Math.abs(step.A - episode.lanes.credit[name][token.index]));
          if (name === "TPPO") worst = Math.max(worst, Math.abs(
            step.A - episode.lanes.numbers.raw_advantages[token.index]));
        }
      return worst; }"""
    with OpenPage(browser, pages[name]) as page:
        assert page.value(script) < 1e-5


def test_a_run_without_critic_says_so(browser: Any, pages: dict[str, Path]) -> None:
    """On the episode that the page opens with, which is one that was learned from."""
    with OpenPage(browser, pages["grpo"], at="#t=0&compare=1") as page:
        largest = "Math.max(...page.data.episodes.map((each) => each.peak.advantages || 0))"
        assert page.value("chosenEpisode().peak.advantages") == page.value(largest) > 0
        assert "no critic" in page.text('#detail [data-algebra="TPPO"]')
        assert "no critic" in page.text(".compare")
        assert "deviation" in page.text('#detail [data-algebra="GRPO"]')


def test_a_crashed_run_says_what_is_missing(browser: Any, pages: dict[str, Path]) -> None:
    with OpenPage(browser, pages["crashed"]) as page:
        assert "ended before its last evaluation" in page.text("#checks")
        assert "only half written" in page.text("#checks")


def test_filters_order_search_keys_and_links(browser: Any, pages: dict[str, Path]) -> None:
    with OpenPage(browser, pages["main"]) as page:
        every = page.count(".list li")
        page.tab.select_option('[data-filter="outcome"]', "failure")
        failures = page.value("page.data.episodes.filter((each) => !each.success).length")
        assert page.count(".list li") == failures < every
        category = page.value("page.visible[0].category")
        page.tab.select_option('[data-filter="category"]', category)
        assert set(page.value("page.visible.map((each) => each.category)")) == {category}
        page.tab.click("text=Clear filters")
        page.tab.select_option('[data-filter="sort"]', "long")
        lengths = page.value("page.visible.map((each) => each.steps.length)")
        assert lengths == sorted(lengths, reverse=True)
        page.tab.keyboard.press("/")
        wanted = page.value("page.visible[2].steps[0].text")
        page.tab.keyboard.type(wanted)
        page.tab.wait_for_function("(wanted) => place.q === wanted", arg=wanted)
        assert all(
            wanted.lower() in each for each in page.value("page.visible.map((e) => e.search)")
        )
        page.tab.keyboard.press("Escape")
        page.tab.click("text=Clear filters")
        _keys(page)
        link = page.value("location.href")
        chosen = page.text(".tok.chosen")
        page.tab.goto("about:blank")
        page.tab.goto(link)
        page.tab.wait_for_selector("html[data-ready]")
        assert page.text(".tok.chosen") == chosen
        assert page.tab.locator(".tok.chosen").is_visible()


def _keys(page: OpenPage) -> None:
    page.value("go({ e: page.visible[0].id })")
    for key in ("j", "j", "k"):
        page.tab.keyboard.press(key)
    assert page.value("place.e") == page.value("page.visible[1].id")
    for key in ("n", "n", "n", "p"):
        page.tab.keyboard.press(key)
    assert page.value("place.t") == "1"
    measures = page.value("measuresOf(chosenEpisode()).map(([name]) => name)")
    page.tab.keyboard.press("]")
    assert page.value("place.m") == measures[1 % len(measures)]
    before = page.value("theme()")
    page.tab.keyboard.press("t")
    assert page.value("theme()") != before
    page.tab.keyboard.press("?")
    assert page.tab.locator("#help").is_visible()
    page.tab.keyboard.press("Escape")
    page.tab.keyboard.press("c")
    assert page.count(".compare") > 0
    page.tab.keyboard.press("Escape")
    assert page.value("place.t") == ""
    page.tab.go_back()
    assert page.value("place.e") == page.value("page.visible[2].id")
    page.tab.keyboard.press("n")


def test_curve_exports_groups_updates_and_state(browser: Any, pages: dict[str, Path]) -> None:
    with OpenPage(browser, pages["main"]) as page:
        page.tab.locator("[data-curve]").click(position={"x": 300, "y": 60})
        assert page.count(".tok.chosen") == 1
        assert b"<svg" in page.saved('[data-export="svg"]')
        assert page.saved('[data-export="png"]').startswith(b"\x89PNG")
        assert json.loads(page.saved('[data-export="json"]'))["lanes"]["credit"]["TPPO"]
        messages = json.loads(page.saved('[data-export="messages"]'))
        assert {"user", "assistant"} <= {each["role"] for each in messages}
        replay = page.tab.locator('[data-export="replay"]').get_attribute("title")
        assert replay.startswith("fctncalling replay --input ")
        assert evaluate(replay.split()[1:]) == 0
        failing = "page.data.episodes.find((each) => each.environment.some((e) => e.fault))"
        page.tab.keyboard.press("Escape")
        page.value(f"go({{ e: {failing}.id }})")
        assert "multi_turn:" in page.text(".state .bad")
        page.tab.click('[data-view="updates"]')
        assert page.count("[data-update]") >= 2
    with OpenPage(browser, pages["grpo"], at="#view=groups") as page:
        groups = page.count("[data-group]")
        assert groups == page.value("page.data.members.length") / 8
        assert page.count("[data-open]") == page.value("page.data.members.length")
        target = page.text("[data-open]")
        page.tab.locator("[data-open]").first.click()
        assert page.tab.locator("article").get_attribute("data-episode") == target


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_seen_with_two_clicks(bug: str, browser: Any, tmp_path: Path) -> None:
    make, message = PLANTED[bug]
    run = write_sample_run(tmp_path / "run", make())
    assert evaluate(["view", str(run)]) == 0
    check = "mask" if bug == "tool text" else bug
    with OpenPage(browser, run / "view.html") as page:
        page.tab.click(f'[data-check="{check}"]')  # the first click: the token it is about
        assert page.count(".tok.found.chosen") == 1
        assert message in page.text("#detail")
        page.tab.click('[data-view="run"]')  # the second: all of them
        assert message in page.text("main")


def test_alarms_and_left_out_episodes_lead_to_examples(browser: Any, tmp_path: Path) -> None:
    run = write_sample_run(tmp_path / "run")
    assert evaluate(["view", str(run)]) == 0
    with OpenPage(browser, run / "view.html") as page:
        assert "9 checks pass" in page.text("#checks")
        page.tab.click("#alarms")
        page.tab.click("#alarm-box [data-open]")
        assert page.tab.locator("article").get_attribute("data-episode") == "train_000003:2"
        page.tab.click('[data-view="discarded"]')
        assert "the tool server died" in page.text("main table")
        page.tab.click("main [data-open]")
        assert "the tool server died" in page.text(".verdict")
        assert "<b>not</b> removed" in page.value("page.byId.get('train_000003:2').message")


def _reports(folder: Path) -> dict[str, Path]:
    """Write the pages of adapt, conformance and a text history, with hostile texts in them."""
    hostile = "<img src=x onerror=alert(1)>"
    answers = [
        {"id": f"{category} {hostile}", "category": category, "strict_valid": at % 2 == 0}
        | {
            "steps": [],
            "ground_truth": [{hostile: {"x": [1]}}] if category != "irrelevance" else [],
        }
        for at in range(40)
        for category in ("simple_python", "irrelevance")
    ]
    (folder / "work").mkdir()
    played = {"before": StageAnswers(answers, []), "after": StageAnswers(answers, [])}
    report = AdaptReport(hostile, played, {}, told=[hostile])
    write_report(report, SimpleNamespace(output=folder))  # type: ignore[arg-type]
    scored = SimpleNamespace(json=None, page=folder / "conformance.html", scorer=hostile, parser="")
    table = ReportTable("Agreement", ["stratum", "agreement"], [[hostile, Bar(0.9, "90 %")]])
    deliver(scored, {}, f"90 % {hostile}", table, [[hostile, hostile]])  # type: ignore[arg-type]
    (folder / "history.html").write_text(TextHistory(hostile, [1]).to_html())
    names = ("report", "conformance", "history", "episodes")
    return {name: folder / f"{name}.html" for name in names}


def test_every_report_opens_with_its_sentence_in_sight(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    """On a desk and on a telephone, light and dark; OpenPage wants no error and nothing loaded."""
    shots = Path(os.environ.get("FCTNCALLING_SCREENSHOTS", tmp_path / "shots"))
    shots.mkdir(parents=True, exist_ok=True)
    runs = [str(pages[name].parent / name) for name in ("main", "grpo")]
    assert evaluate(["view", *runs, "--output", str(tmp_path / "compared.html")]) == 0
    found = {**_reports(tmp_path), "main": pages["main"], "compared": tmp_path / "compared.html"}
    for name, path in found.items():
        for width, height in ((1280, 800), (390, 844)):
            for scheme in ("light", "dark"):
                size: dict[str, Any] = {"width": width, "height": height, "scheme": scheme}
                with OpenPage(browser, path, ready=".sentence", **size) as page:
                    box = page.tab.locator(".sentence").bounding_box()
                    assert box is not None
                    assert box["y"] + box["height"] < height / 2, name
                    assert page.value("document.documentElement.scrollWidth") <= width, name
                    assert page.count("img") == 0
                    ratio, where = page.value(CONTRAST)
                    assert ratio >= 4.5, (name, where)
                    page.tab.screenshot(path=shots / f"{name}_{width}_{scheme}.png")


def test_compared_runs_stand_side_by_side(browser: Any, pages: dict[str, Path]) -> None:
    folder = pages["main"].parent
    runs = [path.parent for path in sorted(folder.rglob("episodes"))]
    assert evaluate(["view", *map(str, runs), "--output", str(folder / "compared.html")]) == 0
    for width in (400, 1280):
        with OpenPage(browser, folder / "compared.html", width=width) as page:
            page.tab.click('[data-view="compared"]')
            assert page.count("main .card") == 5
            assert (
                page.count("#compared-curves polyline")
                == page.value("page.data.compared.curves.filter((each) => each.length > 1).length")
                > 0
            )
            assert page.value("document.documentElement.scrollWidth") <= width
            assert "env_name" in page.text("main .card:last-child")


def test_curves_of_a_supervised_stage_run_over_its_steps(browser: Any, tmp_path: Path) -> None:
    run = write_sample_run(tmp_path / "run")
    lines = [{"update": 0, "sft/step": step, "sft/loss": 1 / step} for step in (1, 2, 3, 5)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert evaluate(["view", str(run)]) == 0
    with OpenPage(browser, run / "view.html") as page:
        page.tab.click('[data-view="run"]')
        line = "document.querySelector('[data-metric=\"sft/loss\"] polyline')"
        assert page.value(f"[...{line}.points].map(({{x}}) => x)") == [0, 50, 100, 200]
        assert page.count('[data-metric="sft/step"]') == 0
