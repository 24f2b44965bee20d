"""What a run writes down: deterministic numbers apart from clocks, nothing overwritten, nothing
made up.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import (
    EpisodeRecord,
    TokenRecord,
    episode_metrics,
    success_metrics,
)
from fctncalling.algorithms.generation.engine_api import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.run.logs import (
    RunExistsError,
    RunLog,
    episode_json,
    results_folder,
)
from fctncalling.algorithms.run.update_log import peak_memory_gb
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Call, Episode, StepRecord, Verdict
from fctncalling.envs.function_calling import FunctionCallingEnv


def record(
    *,
    category: str = "echo",
    success: bool = True,
    errors: tuple[str, ...] = (),
    invalid: bool = False,
    steps: int = 2,
) -> EpisodeRecord:
    """Return an episode whose row is two tokens of context and then, a step, one acted token and
    one of context.
    """
    acted = [False, False] + [True, False] * steps
    row = TokenRecord([7] * len(acted), acted, acted, [0.0] * len(acted), [0.0] * len(acted))
    played = tuple(
        StepRecord(turn // 2, "f()", (Call("f", {"x": {1, 2}}),)) for turn in range(steps)
    )
    return EpisodeRecord(
        "t",
        category,
        [row],
        terminated=True,
        invalid=invalid,
        success=success,
        episode_return=float(success),
        num_steps=steps,
        num_actions_truncated=1,
        errors=list(errors),
        episode=Episode(
            "t", category, played, Verdict(success, float(success)), terminated=True, seed=4
        ),
    )


def test_rates_are_means_over_valid_episodes_and_their_steps() -> None:
    episodes = [
        record(success=True, errors=("malformed",), steps=4),
        record(success=False, errors=("tool_error", "unknown_function"), steps=2),
        record(success=False, invalid=True),
    ]
    metrics = episode_metrics(episodes)
    assert metrics["env/invalid"] == 1
    assert metrics["env/success_rate"] == 0.5
    assert metrics["charts/episodic_return"] == 0.5
    assert metrics["charts/episodic_length"] == 3
    assert metrics["env/turns_mean"] == 1.5
    assert metrics["env/parse_error_rate"] == pytest.approx(2 / 6)
    assert metrics["env/tool_error_rate"] == pytest.approx(1 / 6)
    assert metrics["tokens/prompt_length_mean"] == 2
    assert metrics["tokens/action_length_mean"] == 1
    assert metrics["tokens/action_truncated_rate"] == pytest.approx(2 / 6)


def test_success_is_told_for_each_category() -> None:
    episodes = [
        record(category="b"),
        record(category="a", success=False),
        record(category="b", success=False),
    ]
    rates = {"x": 1 / 3, "x/a": 0.0, "x/b": 0.5}
    assert success_metrics(episodes, "x", "strict") == pytest.approx(rates)
    assert episode_metrics(episodes)["env/success_rate/b"] == 0.5


def test_strict_success_is_told_beside_the_official_one_where_it_was_judged() -> None:
    episodes = [record(), record(), record(success=False)]
    episodes[0].strict_success, episodes[1].strict_success = True, False
    metrics = episode_metrics(episodes)
    assert metrics["env/success_rate"] == pytest.approx(2 / 3)
    # The third was cut before any verdict: it is solved in neither sense.
    assert metrics["env/success_rate_strict"] == pytest.approx(1 / 3)
    assert "env/success_rate_strict" not in episode_metrics([record()])


def test_the_log_names_the_rule_that_the_strict_verdict_found_broken(tmp_path: Path) -> None:
    """Played: BFCL reads a bare name as a string and forgives it, the strict reward does not."""
    task = next(t for t in load_tasks(embedded_path("held_out")) if t.category == "simple_python")
    ((name, values),) = task.ground_truth[0].items()
    arguments = ", ".join(f"{key}={accepted[0]!r}" for key, accepted in values.items())
    template = ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("model"))))
    played = {}
    for text in (f"[{name}({arguments})]", f"```[{name}({arguments})]```", "[nothing()]"):
        engine = ScriptedEngine(
            lambda *_, text=text: text, template.encode, template.end_of_turn_id
        )
        env = FunctionCallingEnv(tasks=[task], reward="strict")
        (episode,) = collect([env], engine, template, [task.id], max_episode_tokens=800)
        played[text] = episode_json(episode)
    right, fenced, wrong = played.values()
    fields = ("success", "strict_success", "return", "strict_error_type", "strict_message")
    assert [right.get(each) for each in fields] == [True, True, 1.0, None, None]
    assert [fenced[each] for each in fields[:4]] == [True, False, 0.0, "strict:lenient_syntax"]
    assert fenced["strict_message"].startswith("step 0 (turn 0): ")
    assert wrong["strict_error_type"] == wrong["verdict"]["error_type"]
    assert "strict_message" not in wrong


def test_where_no_episode_is_valid_no_rate_is_made_up() -> None:
    assert episode_metrics([record(invalid=True)]) == {
        "env/episodes": 1,
        "env/invalid": 1,
        "env/invalid_rate": 1.0,
    }


def test_a_number_that_does_not_exist_is_null_and_every_line_is_json(tmp_path: Path) -> None:
    log = RunLog(tmp_path, {"inf": math.inf}, tensorboard=False)
    log.write_metrics(1, {"a": math.nan, "b": 1 / 3, "c": None})
    log.close()
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"update": 1, "a": None, "b": 1 / 3, "c": None}
    assert json.loads((tmp_path / "config.json").read_text()) == {"inf": None}


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    RunLog(tmp_path, {}, tensorboard=False).close()  # ended before its first line: it bars nothing
    log = RunLog(tmp_path, {}, tensorboard=False)
    log.write_metrics(1, {"a": 1.0})
    log.close()
    with pytest.raises(RunExistsError, match="--resume"):
        RunLog(tmp_path, {}, tensorboard=False)
    RunLog(tmp_path, {}, resume=True, tensorboard=False).close()


def test_rewinding_drops_what_came_after_and_goes_on_there(tmp_path: Path) -> None:
    log = RunLog(tmp_path, {}, tensorboard=False)
    log.write_metrics(1, {"a": 1.0})
    position = log.file_positions()
    log.write_metrics(2, {"a": 2.0})
    log.close()
    log = RunLog(tmp_path, {}, resume=True, tensorboard=False)
    log.rewind(position)
    log.write_metrics(3, {"a": 3.0})
    log.close()
    assert [
        json.loads(line)["update"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ] == [1, 3]


def test_an_episode_line_holds_what_a_replay_needs_even_where_arguments_are_no_json(
    tmp_path: Path,
) -> None:
    log = RunLog(tmp_path, {}, tensorboard=False)
    path = log.write_episodes("some", [record()])
    log.close()
    line = json.loads(path.read_text())
    assert (line["task_id"], line["seed"], line["success"]) == ("t", 4, True)
    assert [step["text"] for step in line["steps"]] == ["f()", "f()"]
    assert line["steps"][0]["calls"][0]["arguments"] == {"x": "{1, 2}"}
    assert episode_json(record())["verdict"]["valid"] is True


def test_an_episode_line_tells_a_reader_everything_and_its_tokens_come_back() -> None:
    whole = record()
    whole.messages = [
        [{"role": "user", "content": "Do it twice."}],
        [{"role": "tool", "content": "done"}],
        [{"role": "user", "content": "Thanks."}],
    ]
    whole.ground_truth = [["f()"]]
    first = whole.rows[0]
    again = TokenRecord([7, 7, 8], [False, False, True], [False] * 3, [0.0] * 3, [0.0] * 3)
    whole.rows.append(again)
    line = json.loads(json.dumps(episode_json(whole, lambda ids: f"{len(ids)} ids"), default=repr))
    assert line["messages"] == whole.messages[0]
    assert "messages" not in line["steps"][0]  # tool results are in "results"
    assert line["steps"][1]["messages"] == whole.messages[2]
    assert (line["ground_truth"], line["prompt"]) == ([["f()"]], "2 ids")
    read: list[int] = []
    for row, tokens in zip(whole.rows, line["tokens"], strict=True):
        read = read[: tokens["shared"]] + tokens["ids"]
        mask = [bool(at % 2) for at, length in enumerate(tokens["runs"]) for _ in range(length)]
        assert (read, mask) == (row.ids, row.acted)
    assert (line["tokens"][1]["shared"], line["tokens"][1]["ids"]) == (2, [8])
    assert len(first.ids) == 6


def test_the_results_folder_names_experiment_model_dataset_and_algorithm() -> None:
    config = TrainConfig(
        experiment_name="e", model_name_or_path="/x/Qwen", dataset_path="d/BFCL_v4_simple.json"
    )
    assert results_folder(config) == Path("results/e/Qwen/BFCL_v4_simple/TPPO")
    assert results_folder(TrainConfig()) == Path("results/check/embedded/embedded/TPPO")


def test_tensorboard_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    log = RunLog(tmp_path, {})
    log.write_metrics(1, {"a": 1.0})
    log.close()
    assert not list(tmp_path.glob("events*"))


def test_tensorboard_gets_metrics_and_timings(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = RunLog(tmp_path, {})
    log.write_metrics(1, {"env/success_rate": 0.5})
    log.write_timings(1, {"charts/SPS": 10.0})
    log.close()
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"env/success_rate", "charts/SPS"}


def test_peak_memory_is_in_gigabytes() -> None:
    peak = peak_memory_gb()
    assert peak is None or 0.01 < peak < 1000
