"""--sft_tasks and --sft_episodes: demonstrations as the environment would have seen them, a stage
before reinforcement learning that resumes exactly, and one line for what cannot be learned.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.run.evaluation import print_table
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.evaluation.scripted_policies import PolicyInput
from fctncalling.progress_bar import Stage
from fctncalling.training.demonstrations import GroundTruthPolicy, play_ground_truths

FLAGS = {
    "num_updates": 1,
    "episodes_per_update": 16,
    "dynamic_sampling": 1,
    "num_mini_batch": 1,
    "n_rollout_threads": 8,
    "eval_episodes": 4,
    "log_episodes_interval": 1,
    "save_interval": 0,
    "tensorboard": "false",
    "device": "cpu",
}


STAGE = ("--sft_tasks=dataset", "--sft_batch_size=4", "--sft_save_interval=2")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 20 embedded tasks: of every category, so some of them without a call."""
    source, folder = embedded_path("train"), tmp_path_factory.mktemp("tasks")
    texts = source.read_text("utf-8").splitlines()
    (folder / "few.json").write_text("\n".join(texts[:: len(texts) // 20][:20]) + "\n")
    (folder / "possible_answer").mkdir()
    shutil.copy(
        source.parent / "possible_answer" / source.name, folder / "possible_answer/few.json"
    )
    (folder / "multi_turn_func_doc").symlink_to(source.parent / "multi_turn_func_doc")
    return folder / "few.json"


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    from transformers import AutoTokenizer

    return ChatTemplate(AutoTokenizer.from_pretrained(embedded_path("model")))


def flags(tasks: Path, results: Path, *more: str) -> list[str]:
    words = [f"--{name}={value}" for name, value in FLAGS.items()]
    return [*words, f"--dataset_path={tasks}", f"--results_dir={results}", *more]


def run_folder(results: Path) -> Path:
    return results / "check" / "embedded" / "few" / "TPPO"


def lines(results: Path) -> list[dict[str, Any]]:
    text = (run_folder(results) / "metrics.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_only_what_the_demonstrator_says_is_trained_and_results_stand_in_the_context(
    tasks: Path, template: ChatTemplate
) -> None:
    loaded = load_tasks(tasks)
    played = play_ground_truths(
        loaded, lambda some: FunctionCallingEnv(tasks=some), template, "", 4096
    )
    assert [each.task_id for each in played] == [task.id for task in loaded]
    assert all(each.success for each in played)
    results = 0
    for each in played:
        (row,) = each.rows
        acted = template.spell([i for i, acts in zip(row.ids, row.acted, strict=True) if acts])
        context = template.spell(
            [i for i, acts in zip(row.ids, row.acted, strict=True) if not acts]
        )
        steps: Any = each.episode
        for step in steps.steps:
            assert "".join(step.text.split()) in "".join(acted.split())
            for result in step.results:
                results += 1
                assert "".join(result.split()) in "".join(context.split())
    assert results > 20


def test_a_request_that_nothing_serves_is_declined_without_a_word_of_missing_values() -> None:
    answers = dict[str, str]()
    for task in load_tasks(embedded_path("train")):
        truth = oracle_calls(task)
        empty = next((at for at, calls in enumerate(truth or [[]]) if not calls), None)
        if empty is not None:
            situation = PolicyInput(task, empty, 0, "", [], "")
            answers[task.category] = GroundTruthPolicy()(situation)
    assert "missing" not in answers["irrelevance"]
    assert "missing" in answers["multi_turn_miss_param"]


@pytest.fixture(scope="module")
def whole(tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of an uninterrupted run."""
    results, shown, leave = tmp_path_factory.mktemp("whole"), list[str](), Stage.__exit__

    def note(stage: Stage, *error: object) -> None:
        shown.append(stage.line())
        leave(stage, *error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stage, "__exit__", note)
        assert main(flags(tasks, results, *STAGE)) == 0
    (results / "shown.json").write_text(json.dumps(shown))
    return results


def test_every_stage_of_a_run_is_shown_and_counted_to_its_end(whole: Path) -> None:
    lines = json.loads((whole / "shown.json").read_text("utf-8"))
    assert [
        re.sub(r": .* so far|, about 0 s left|(?<=of about ).*", "", line) for line in lines
    ] == [
        "loading the model",
        "playing ground truths, 17 of 17 tasks",
        "evaluation, 6 of 6 episodes",
        "supervised stage, 5 of 5 steps, then an evaluation of about ",
        "evaluation, 6 of 6 episodes",
        "collecting, 16 of 16 episodes",
        "learning",
        "evaluation, 6 of 6 episodes",
    ]


def test_the_stage_stands_before_reinforcement_learning_in_log_and_report(whole: Path) -> None:
    written = lines(whole)
    assert [line["update"] for line in written] == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert "base/greedy_success_rate" in written[0]
    assert [line["sft/step"] for line in written[1:6]] == [1, 2, 3, 4, 5]  # 17 tasks, in fours
    assert {"sft/loss", "sft/grad_norm", "sft/learning_rate"} <= written[1].keys()
    assert "eval/greedy_success_rate" in written[6]
    evaluation = json.loads((run_folder(whole) / "evaluation.json").read_text("utf-8"))
    assert evaluation["base"]["greedy"] == written[0]["base/greedy_success_rate"]
    assert evaluation["before"]["greedy"] == written[6]["eval/greedy_success_rate"]
    assert (evaluation["sft_steps"], evaluation["updates"]) == (5, 1)
    stages = [evaluation[name]["stage"] for name in ("base", "before", "after")]
    assert stages == ["base", "supervised", "reinforced"]
    assert [*evaluation][:3] == ["base", "before", "after"], "in the order of training"
    assert [evaluation[name]["model"] for name in ("base", "before", "after")] == [
        "as loaded, before any training",
        "after 5 supervised steps, before all updates",
        "after update 1",
    ]
    assert evaluation["prompt_style"] == "bfcl"


def test_the_table_has_three_columns_where_there_was_a_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stages = {"base": 0.5, "supervised": 0.0, "reinforced": 1.0}
    common: dict[str, Any] = {"categories": {}, "multi_turn": {"num_tasks": 0}}
    base, *sides = ({"stage": name, "greedy": rate, **common} for name, rate in stages.items())
    print_table(sides[0], sides[1], base=base)
    table = capsys.readouterr().out
    assert "base -> supervised -> reinforced" in " ".join(table.split())
    assert "50.0 ->   0.0 -> 100.0" in table
    print_table(sides[0], sides[1], base={})
    assert "before -> after" in capsys.readouterr().out


def test_after_ctrl_c_amid_the_stage_its_end_alone_and_the_run_that_follows_are_as_if_uninterrupted(
    whole: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    compute, command = SupervisedLearner.compute_gradient, flags(tasks, tmp_path, *STAGE)

    def interrupted(self: SupervisedLearner) -> dict[str, float]:
        if self.steps == 3:
            signal.raise_signal(signal.SIGINT)
        return compute(self)

    with monkeypatch.context() as patch:
        patch.setattr(SupervisedLearner, "compute_gradient", interrupted)
        assert main(command) == 130
    said = capsys.readouterr().out
    assert "Interrupted after 3 of 5 supervised steps" in said
    assert "sft_000003" in said
    assert main([*command, "--num_updates=0", "--resume"]) == 0
    evaluation = json.loads((run_folder(tmp_path) / "evaluation.json").read_text("utf-8"))
    assert evaluation["before"] == evaluation["after"]
    assert evaluation["after"]["stage"] == "supervised"
    said = capsys.readouterr().out
    assert "Supervised fine-tuning took 5 steps" in said
    assert "learned from" not in said
    assert (run_folder(tmp_path) / "checkpoints" / "last").resolve().name == "update_000000"
    assert main([*command, "--resume"]) == 0
    assert "TPPO learned from 16 episodes" in capsys.readouterr().out
    assert lines(tmp_path) == lines(whole)
    last = "checkpoints/last/model.safetensors"
    found, expected = ((run_folder(each) / last).read_bytes() for each in (tmp_path, whole))
    assert found == expected


def test_logged_episodes_that_succeeded_are_learned_with_the_tokens_that_were_sampled(
    whole: Path, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = run_folder(whole)
    text = (logged / "episodes" / "train_000001.jsonl").read_text("utf-8")
    episodes = [json.loads(line) for line in text.splitlines()]
    good = {json.dumps(each["tokens"]) for each in episodes if each["strict_success"]}
    assert 0 < len(good) < len(episodes)
    alone = ("--num_updates=0", "--sft_batch_size=1", f"--sft_episodes={logged}")
    assert main(flags(tasks, tmp_path, *alone)) == 0
    assert f"{len(good)} distinct successful episodes of 16" in capsys.readouterr().out
    shown = [line for line in lines(tmp_path) if "sft/step" in line]
    assert len(shown) == len(good)
    runs = [json.loads(each)[0]["runs"] for each in good]
    assert sum(line["sft/trained_tokens"] for line in shown) == sum(sum(it[1::2]) for it in runs)


def no_tasks(folder: Path) -> list[str]:
    return [f"--sft_tasks={folder / 'none.json'}"]


def no_episodes(folder: Path) -> list[str]:
    return [f"--sft_episodes={folder}"]


def no_room(folder: Path) -> list[str]:
    return ["--sft_tasks=dataset", "--max_episode_tokens=12", "--max_new_tokens=8"]


def unplayable(folder: Path) -> list[str]:
    texts = (folder / "few.json").read_text("utf-8").splitlines()
    entry = next(json.loads(text) for text in texts if "multi_turn_base" in text)
    bad = {**entry, "ground_truth": [["no call"]] * len(entry["question"])}
    (folder / "bad.json").write_text(json.dumps([{**bad, "id": "multi_turn_base_9"}]))
    return [f"--sft_tasks={folder / 'bad.json'}"]


def agentic(folder: Path) -> list[str]:
    entry = {"id": "web_search_1", "question": [[{"role": "user", "content": "Who?"}]]}
    entry |= {"involved_classes": ["WebSearchAPI"], "ground_truth": ["Me"], "function": []}
    (folder / "agentic.json").write_text(json.dumps([entry]))
    return [f"--sft_tasks={folder / 'agentic.json'}"]


def other_tokenizer(folder: Path) -> list[str]:
    line = {"task_id": "t", "success": True, "prompt": "something else"}
    line |= {"tokens": [{"shared": 0, "ids": [1, 2, 3], "runs": [2, 1]}]}
    (folder / "train_1.jsonl").write_text(json.dumps(line) + "\n")
    return [f"--sft_episodes={folder / 'train_1.jsonl'}"]


def none_succeeded(folder: Path) -> list[str]:
    (folder / "train_2.jsonl").write_text('{"task_id": "t", "success": false}\n')
    return [f"--sft_episodes={folder / 'train_2.jsonl'}"]


def no_log(folder: Path) -> list[str]:
    return [f"--sft_episodes={folder / 'few.json'}"]


def with_reference(folder: Path) -> list[str]:
    return ["--sft_tasks=dataset", "--kl_coef=0.1"]


def tools_in_the_template(folder: Path) -> list[str]:
    return ["--sft_tasks=dataset", "--prompt_style=compact"]


def idle(folder: Path) -> list[str]:
    return ["--sft_epochs=2"]


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (no_tasks, "none.json: there is no such file"),
        (no_episodes, "there are no logged training episodes"),
        (no_room, "none of 0 demonstrations has a token to be trained"),
        (unplayable, "multi_turn_base_9: the ground truth cannot be played"),
        (agentic, "web_search_1: 1 of 1 tasks do not say which calls solve them"),
        (other_tokenizer, "line 1: its token ids are another tokenizer's"),
        (none_succeeded, "none of 1 episodes succeeded"),
        (no_log, "line 1: expected an episode of a run's log"),
        (with_reference, "--kl_coef: got a reference, which would be the model before --sft_tasks"),
        (tools_in_the_template, "--prompt_style compact: this model's chat template writes tools"),
        (idle, "--sft_epochs: no effect without --sft_tasks or --sft_episodes"),
    ],
)
def test_what_cannot_be_learned_is_told_in_one_line_and_leaves_nothing(
    mistake: Callable[[Path], list[str]],
    told: str,
    tasks: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "files"
    shutil.copytree(tasks.parent, folder, symlinks=True)
    assert main(flags(folder / "few.json", tmp_path / "results", *mistake(folder))) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert told in last
    assert not (tmp_path / "results").exists()


def test_a_stage_has_settings_of_its_own() -> None:
    assert not TrainConfig().has_supervised_stage
    assert TrainConfig(sft_episodes="x").has_supervised_stage
