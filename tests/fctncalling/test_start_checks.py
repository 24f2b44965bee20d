"""What is refused before anything is loaded or written, in one line that names flag and cure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.run.logs import RunLog, results_folder
from fctncalling.algorithms.run.run_lock import LOCK_FILE, RunLock, RunLockedError, require_unlocked
from fctncalling.evaluation.agents.agent import AgentSetupError
from fctncalling.evaluation.agents.local_model import require_model_folder
from fctncalling.lab.doctor.examine import ExaminationSettings, examine
from fctncalling.training.counters import Counters
from fctncalling.training.load_policy import ModelError
from fctncalling.training.prepare_run import check_start
from fctncalling.training.run_config import RunConfig

HOLDER = (
    "import sys\nfrom pathlib import Path\nfrom fctncalling.algorithms.run.run_lock import "
    "RunLock\n"
    "lock = RunLock(Path(sys.argv[1]))\nprint('held', flush=True)\nsys.stdin.read()\n"
)


def refused(tmp_path: Path, kind: type[Exception], config: Any = None, **run_config: Any) -> str:
    """Return what a start is refused with, which leaves no file behind."""
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind) as told:
        check_start(
            TrainConfig(results_dir=str(tmp_path / "results"), **(config or {})),
            RunConfig(**run_config),
        )
    assert sorted(tmp_path.rglob("*")) == before
    assert "\n" not in str(told.value)
    return str(told.value)


def test_wandb_that_is_not_there_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install wandb" in refused(tmp_path, SettingError, wandb="online")


def test_a_model_folder_is_asked_for_all_that_a_model_has(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    named = {"model_name_or_path": str(folder)}
    assert "there is no such folder" in refused(tmp_path, ModelError, named)
    folder.mkdir()
    (folder / "adapter_config.json").touch()
    assert "no config.json (an adapter" in refused(tmp_path, ModelError, named)
    (folder / "config.json").write_text("{}")
    assert "no weights" in refused(tmp_path, ModelError, named)
    save_file({"a": torch.zeros(1)}, folder / "model.safetensors")
    message = refused(tmp_path, ModelError, named)
    assert "no tokenizer" in message
    assert f"save_pretrained('{folder}')" in message
    (folder / "tokenizer.json").touch()
    check_start(TrainConfig(results_dir=str(tmp_path), **named), RunConfig())


def test_a_name_with_one_slash_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a folder or a model of the hub, which a loader would ask again and again."""
    asked = list[str]()

    def model_info(_: object, name: str, **__: object) -> None:
        asked.append(name)
        raise OSError("Name or service not known\nand more")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name, told in (("models/mine", "there is no such folder. Give"), ("owner/mine", "the hub")):
        for refusal in (
            lambda name=name: refused(tmp_path, ModelError, {"model_name_or_path": name}),
            lambda name=name: _agent_refusal(name),
            lambda name=name: str(examine(ExaminationSettings(name)).findings),
        ):
            assert told in refusal()
    assert asked == ["owner/mine"] * 3


def _agent_refusal(name: str) -> str:
    with pytest.raises(AgentSetupError) as told:
        require_model_folder(name)
    return str(told.value)


@pytest.mark.parametrize("flag", ["chat_template", "prompt_path", "tool_config_path"])
def test_files_that_are_not_there_are_named_by_their_flag(tmp_path: Path, flag: str) -> None:
    assert f"--{flag} /nowhere: cannot be read" in refused(
        tmp_path, SettingError, **{flag: "/nowhere"}
    )


def test_a_critic_and_a_results_folder_are_looked_at(tmp_path: Path) -> None:
    assert "holds no critic" in refused(tmp_path, SettingError, {"init_critic_from": "/nowhere"})
    with pytest.raises(SettingError, match="--results_dir /dev/null/x: cannot be written to"):
        check_start(TrainConfig(results_dir="/dev/null/x"), RunConfig())


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/../../b", ""])
def test_an_experiment_stays_below_the_results_folder(name: str) -> None:
    with pytest.raises(SettingError, match=r"--experiment_name: got .* below --results_dir"):
        TrainConfig(experiment_name=name)


def test_a_model_in_the_folder_above_has_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "here")
    folder = results_folder(TrainConfig(model_name_or_path="..", results_dir="r"))
    assert folder == Path("r/check/mine/embedded/TPPO")


def test_a_folder_that_another_process_works_in_is_refused_by_naming_it(tmp_path: Path) -> None:
    require_unlocked(tmp_path)
    assert not list(tmp_path.iterdir())
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for attempt in (RunLock, require_unlocked, lambda folder: RunLog(folder, {}, resume=True)):
            with pytest.raises(RunLockedError, match=f"in use by process {other.pid} on"):
                attempt(tmp_path)
        other.kill()
    require_unlocked(tmp_path)  # the system let go of it with the process
    lock = RunLock(tmp_path)
    with pytest.raises(RunLockedError, match=r"\(this one\)"):
        require_unlocked(tmp_path)
    lock.release()
    require_unlocked(tmp_path)
    assert "locks nothing once that process has ended" in (tmp_path / LOCK_FILE).read_text()
    log = RunLog(tmp_path, {}, resume=True)
    assert f"process {os.getpid()} on" in (tmp_path / LOCK_FILE).read_text()
    log.close()
    assert not (tmp_path / LOCK_FILE).exists()
    require_unlocked(tmp_path)


@pytest.mark.parametrize(
    "saved", [{"updates": -5}, {"updates": "five"}, {"before": []}, {"nonsense": 1}, ["updates"]]
)
def test_counters_made_by_hand_are_refused(saved: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Counters.from_state(saved)
    assert Counters.from_state({"updates": 3, "entropy_coef": 0.5}).updates == 3
