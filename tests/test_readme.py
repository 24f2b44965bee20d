"""The classes and command lines of README and docs work as they are written."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pretrained_model import FOLDER, needs_smollm2
from stub_endpoint import endpoint

from fctncalling.cli.evaluate import main
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import TaskError, embedded_path, load_tasks
from fctncalling.data.paths import is_source_checkout
from fctncalling.envs.function_calling import FunctionCallingEnv

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
OWN = "Your own tools, and a model that learns them"
LEADERBOARD = ("No answers yet: let a model play", "Every command in a clone")
# The flags of the repository that the default algorithm comes from.
SEED_FLAGS = (
    "--seed 10 --env_name fctncalling_env --algorithm_name TPPO --experiment_name tppo "
    "--num_mini_batch 2 "
    "--ppo_epoch 1 --lr 1e-6 --critic_lr 5e-5 --n_rollout_threads 2 --gradient_cp_steps 1 "
    "--max_new_tokens 16 "
    "--save_interval 1000"
)


def blocks(section: str, language: str) -> list[str]:
    """Return the fenced blocks of a section, of whichever page, in a language ("" for command
    lines).
    """
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    [text] = [text for page in pages for text in page.split(f"\n## {section}\n")[1:]]
    text = text.split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(section: str, begins: str) -> list[str]:
    """Return the command lines of a section that begin so, broken lines joined."""
    lines = "".join(blocks(section, "")).replace("\\\n", " ").splitlines()
    return [line.removeprefix(begins).strip() for line in lines if line.startswith(begins)]


@pytest.fixture
def _own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the section's files where the test then stands, as its reader does."""
    module, script = blocks(OWN, "python")
    assert module.startswith("# my_tools.py\n")
    (tmp_path / "my_tools.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec(script, {})


@pytest.mark.usefixtures("_own_files")
def test_the_class_of_the_readme_is_linted_played_and_replayed_as_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [line for line in commands(OWN, "fctncalling ") if not line.startswith("train ")]
    assert [line.split()[0] for line in lines] == ["lint", "run"]
    for line in lines:
        assert main(shlex.split(line)) == 0
    assert "nothing found" in capsys.readouterr().out
    episodes = [json.loads(line) for line in Path("played.jsonl").read_text().splitlines()]
    assert len(episodes) == 20
    assert all(episode["valid"] and episode["strict_valid"] for episode in episodes)
    first = min(episodes, key=lambda each: (len(each["id"]), each["id"]))  # they end in any order
    results = [step["results"] for step in first["steps"]]
    assert results == [['{"degrees": 8}'], [], ['{"degrees": 8}'], []]
    again = ["--dataset_path", "my_tasks.json", "--allow_task_tools"]
    assert main(["replay", "--input", "played.jsonl", *again]) == 0
    assert main(["canaries", *again]) == 0
    wrong = FunctionCallingEnv(dataset_path="my_tasks.json", allow_task_tools=True)
    wrong.reset(options={"task_id": "multi_turn_base_0"})
    for text in ("[set_degrees(degrees=31)]", "Done.", "[get_degrees()]"):
        assert not wrong.step(text)[2]
    assert not wrong.step("Done.")[4]["verdict"].valid


@pytest.mark.usefixtures("_own_files")
def test_the_custom_reward_of_the_page_pays_for_success_and_takes_for_calls() -> None:
    [module] = blocks("Your own reward", "python")
    names: dict[str, Any] = {}
    exec(module, names)
    env = FunctionCallingEnv(
        dataset_path="my_tasks.json", allow_task_tools=True, reward=names["brief"]
    )
    env.reset(options={"task_id": "multi_turn_base_3"})
    actions = ("[set_degrees(degrees=11)]", "Done.", "[get_degrees()]", "11.")
    assert [env.step(text)[1] for text in actions] == [-0.01, 0.0, -0.01, 1.0]


def test_the_agent_of_the_readme_plays_an_episode_as_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [program] = blocks("An agent in ten lines", "python")
    names: dict[str, Any] = {}
    exec(program, names)
    assert "Verdict(valid=False" in capsys.readouterr().out
    assert names["info"]["category"] == "multi_turn_base"
    assert names["info"]["turn"] == 1, "the second turn was reached"


@pytest.mark.filterwarnings("ignore:.*ground_truth")
def test_official_files_are_found_by_their_names_once_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fctncalling.data.bfcl.official_data_folder", lambda: tmp_path / "bfcl")
    monkeypatch.setattr("fctncalling.data.bfcl.user_data_folder", lambda: tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    name = "BFCL_v4_simple_python.json"
    with pytest.raises(TaskError, match=rf"^{name}: no such file.*import-bfcl`$"):
        load_tasks(name)
    (tmp_path / "bfcl").mkdir()
    tasks = embedded_path("held_out").read_text().splitlines()
    (tmp_path / "bfcl" / name).write_text(next(line for line in tasks if "simple_python" in line))
    assert FunctionCallingEnv(dataset_path=name).reset()[1]["category"] == "simple_python"
    assert main(["lint", "--dataset_path", name]) == 1
    assert "1 impossible (no_ground_truth)" in capsys.readouterr().out, "it was read"
    (tmp_path / name).write_text("{")
    with pytest.raises(TaskError, match="broken JSON"):
        load_tasks(name)  # the one here goes first


@pytest.mark.usefixtures("_own_files")
def test_a_class_given_by_name_is_judged_strictly_by_every_subcommand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [task, *_] = json.loads(Path("my_tasks.json").read_text())
    text = json.dumps([task | {"involved_classes": ["Thermostat"]}])
    Path("BFCL_v4_multi_turn_base.json").write_text(text)
    own = ["--tools", "Thermostat=my_tools:Thermostat"]
    data, here = ["--dataset_path", "BFCL_v4_multi_turn_base.json", *own], ["--data_dir", ".", *own]
    assert main(["lint", *data]) == main(["canaries", *data]) == 0
    assert main(["run", "--agent", "oracle", "--output", "out.jsonl", *data]) == 0
    assert main(["replay", "--input", "out.jsonl", *data]) == 0
    assert main(["verdicts", "--input", "out.jsonl", "--output", "verdicts.jsonl", *here]) == 0
    assert json.loads(Path("verdicts.jsonl").read_text())["valid"]
    Path("calls.jsonl").write_text(
        '{"category": "multi_turn_base", "id": "multi_turn_base_0", "call": '
        '"set_degrees(degrees=4)"}\n'
    )
    assert main(["execute", "--input", "calls.jsonl", "--output", "results.jsonl", *here]) == 0
    assert "expected 5 to 30" in json.loads(Path("results.jsonl").read_text())["result"]
    capsys.readouterr()
    assert main(["score", "--input", "out.jsonl", "--strict", "--json", *here]) == 0
    [report] = json.loads(capsys.readouterr().out).values()
    scored = report["categories"]["multi_turn_base"]
    assert (scored["accuracy"], scored["strict_accuracy"]) == (1.0, 1.0)


@pytest.mark.prove
@needs_smollm2
@pytest.mark.usefixtures("_own_files")
def test_the_tasks_of_the_page_are_learned_as_written() -> None:
    Path("models").mkdir()
    Path("models/smollm2").symlink_to(FOLDER)
    [line] = commands(OWN, "fctncalling train ")
    assert train(shlex.split(line)) == 0
    [evaluation] = Path("results/thermostat").rglob("evaluation.json")
    rates = json.loads(evaluation.read_text())
    assert (rates["base"]["greedy"], rates["after"]["greedy"]) == (0.0, 1.0)


@pytest.mark.prove
def test_the_flags_of_old_train_a_model_folder_on_an_official_file(
    shared: Path, tmp_path: Path
) -> None:
    official = shared / "bfcl/data/BFCL_v4_multi_turn_base.json"
    folders = ["--dataset_path", str(official), "--model_name_or_path", str(embedded_path("model"))]
    short = [
        "--num_updates",
        "1",
        "--episodes_per_update",
        "4",
        "--eval_episodes",
        "2",
        "--results_dir",
        str(tmp_path),
    ]
    assert train([*SEED_FLAGS.split(), *folders, *short]) == 0
    assert (tmp_path / "tppo/model/BFCL_v4_multi_turn_base/TPPO/evaluation.json").is_file()


@pytest.mark.prove
def test_the_leaderboard_of_the_readme_runs_as_written(shared: Path, tmp_path: Path) -> None:
    if not is_source_checkout():
        pytest.skip("runs in a copy of the source tree")
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".*", "results"))
    shutil.rmtree(tree / "data/bfcl", ignore_errors=True)
    (tree / "data/bfcl").symlink_to(shared / "bfcl/data")
    texts = [block for section in LEADERBOARD for block in blocks(section, "")]
    text = "".join(text for text in texts if not text.startswith("$ ")).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith(("fctncalling ", "echo "))]
    ran = [shlex.split(line)[1] for line in lines if line.startswith("fctncalling ")]
    assert ran == ["run", "score", "run", "verdicts", "execute"]
    with endpoint(lambda *_: {"role": "assistant", "content": "Done."}) as stub:
        for line in lines:
            done = run_shell(line.replace("http://localhost:8000/v1", stub.url), tree)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert len((tree / "mine.jsonl").read_text().splitlines()) == 20
    assert json.loads((tree / "results.jsonl").read_text())["result"].startswith(
        '{"current_directory_content"'
    )


def run_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a copy of the source tree, whose `fctncalling` is that copy's."""
    program = folder / ".venv/bin/fctncalling"
    if not program.exists():
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fctncalling "$@"\n')
        program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), "OPENAI_API_KEY": "none"}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
