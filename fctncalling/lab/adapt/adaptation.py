"""Adaptation: plan, tasks, base score, supervised stage, TPPO, export, score, report."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fctncalling.lab.adapt.adapt_plan import (
    NO_UPDATES,
    PROBE_HELD_OUT,
    PROBE_TASKS,
    AdaptPlan,
    plan_for,
    probe_flags,
    read_probe_times,
    reinforcement_learning_flags,
    supervised_flags,
)
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.adapt.base_model import BaseModel, inspect_base_model
from fctncalling.lab.adapt.played import StageAnswers, success_rate
from fctncalling.lab.adapt.stage import CUT_SHORT, INTERRUPTED, Stages
from fctncalling.lab.adapt.task_files import (
    HELD_OUT,
    TRAIN,
    make_tasks,
    read_task_entries,
    require_specification,
    run_command_in_process,
    turn_step_limit,
    write_split,
)

CONCURRENCY = "16"
SLOWEST_FORGED_S = 0.02  # a task; the probe's few have the start of the forge in their time


class Adaptation:
    """One adaptation, stage by stage; stages that are done are skipped."""

    def __init__(self, settings: AdaptSettings) -> None:
        assert settings.model is not None
        self.settings = settings
        require_specification(settings)
        self.model: BaseModel = inspect_base_model(settings.model)
        settings.keep()  # a SPEC or a model that cannot be read claims no folder
        self.stages = Stages(settings.output / "work")
        self.plan: AdaptPlan
        self.told: list[str] = []  # what the minutes cut short

    def run(self) -> None:
        """Do all stages; AdaptError where one fails."""
        self.make_plan()
        self.stages.run("tasks", self._tasks)
        self.stages.run("base", lambda part: self._play(str(self.settings.model), part))
        end = self._deadline()
        before_tppo = end - self.plan.seconds["tppo"]
        supervised = self.stages.run("supervised", self._supervised, deadline=before_tppo)
        self._tell("supervised")
        learned = self._checkpoint(supervised)
        if learned is None:
            self.stages.reopen("supervised")
            self.told.append(
                "nothing was learned in the minutes: the same command with more --minutes goes on"
            )
            return
        self.stages.run("supervised_score", lambda part: self._export_and_play(learned, part))
        if not self.plan.updates:
            self.told.append(NO_UPDATES)
        else:
            self.stages.run("tppo", lambda part: self._tppo(learned, part), deadline=end)
            self._tell("tppo")
            last = self._checkpoint(self.stages.path("tppo"))
            if last is not None:
                self.stages.run("tppo_score", lambda part: self._export_and_play(last, part))

    @property
    def shipped(self) -> str | None:
        """The score stage of the model that is shipped: the better one on held-out tasks."""
        names = [name for name in ("tppo_score", "supervised_score") if name in self.stages.costs]
        return max(names, key=lambda name: success_rate(self.played(name).held_out), default=None)

    def make_plan(self) -> None:
        """Plan the minutes by a probe, and print the plan."""
        self.plan = self._plan()
        print(self.plan.text(), file=sys.stderr)

    def played(self, stage: str) -> StageAnswers:
        """Return what a stage's model answered."""
        return StageAnswers.read(self.stages.path(stage))

    def _plan(self) -> AdaptPlan:
        folder = self.stages.path("plan")
        if not folder.is_dir():
            probe = self.stages.run("probe", self._probe)
            cost = self.stages.costs["probe"]
            forged = json.loads((probe / "forged.json").read_text(encoding="utf-8"))
            times = read_probe_times(_run_folder(probe), cost, forged, self.model)
            settings = self.settings
            plan = plan_for(
                settings.minutes,
                times,
                num_test=len(read_task_entries(settings.test)) if settings.test else 0,
                tasks_at_hand=len(read_task_entries(settings.tasks)) if settings.tasks else None,
                spent_s=self.stages.wall_seconds,
            )
            self.stages.run("plan", plan.write)
        for name in ("probe", "plan"):
            self.stages.run(name, lambda _: 1)
        return AdaptPlan.read(folder)

    def _probe(self, part: Path) -> int:
        started = time.monotonic()
        made = make_tasks(self.settings, part, PROBE_TASKS + PROBE_HELD_OUT, PROBE_HELD_OUT)
        forged_task = (time.monotonic() - started) / made
        forged_task = 0.0 if self.settings.tasks else min(forged_task, SLOWEST_FORGED_S)
        (part / "forged.json").write_text(json.dumps(forged_task), encoding="utf-8")
        return self._train(part, part, probe_flags(self.model, *self._threads_and_seed()))

    def _tasks(self, part: Path) -> int:
        make_tasks(self.settings, part, self.plan.num_tasks, self.plan.num_held_out)
        return 0

    def _supervised(self, part: Path) -> int:
        flags = self.model.training_flags(*self._threads_and_seed())
        flags += [*supervised_flags(self.plan.epochs), "--num_updates", "0"]
        return self._train(self.stages.path("tasks"), part, [*flags, "--eval_episodes", "1"])

    def _tppo(self, learned: Path, part: Path) -> int:
        flags = self.model.training_flags(*self._threads_and_seed())
        flags[flags.index("--model_name_or_path") + 1] = str(learned)
        flags += reinforcement_learning_flags(self.plan.updates, self.plan.episodes_per_update)
        return self._train(self.stages.path("tasks"), part, [*flags, "--eval_episodes", "1"])

    def _train(self, tasks: Path, part: Path, flags: Sequence[str]) -> int:
        results = part / "results"
        words = ["train", "--dataset_path", str(tasks / TRAIN)]
        words += ["--eval_dataset_path", str(tasks / HELD_OUT), "--allow_task_tools"]
        words += ["--max_steps_per_turn", str(turn_step_limit(self.settings))]
        words += ["--results_dir", str(results), *flags]
        if any(results.glob("*/*/*/*/checkpoints/*")):
            return run_command_in_process([*words, "--resume"])
        shutil.rmtree(results, ignore_errors=True)  # of a run that was killed before it saved
        return run_command_in_process(words)

    def _export_and_play(self, checkpoint: Path, part: Path) -> int:
        model = part / "model"
        if not model.exists():
            words = ["export", "--checkpoint", str(checkpoint), "--output", str(model)]
            if code := run_command_in_process(words):
                return code
        return self._play(str(model), part)

    def _play(self, model: str, part: Path) -> int:
        words = ["--agent", f"hf:{model}", "--torch_threads", str(self.settings.torch_threads)]
        words += ["--max_episode_tokens", str(self.model.max_episode_tokens)]
        words += ["--max_new_tokens", "128", "--prompt_style", self.model.prompt_style]
        return play_held_out_tasks(self.settings, self.stages.path("tasks") / HELD_OUT, part, words)

    def _checkpoint(self, stage: Path) -> Path | None:
        """Return a training stage's last checkpoint; None where the minutes left none."""
        from fctncalling.lab.export import checkpoint_in

        try:
            return checkpoint_in(_run_folder(stage))
        except ValueError:
            return None

    def _deadline(self) -> float:
        """Return when training has to end, by time.monotonic."""
        gone = self.stages.wall_seconds
        return time.monotonic() + 60 * self.settings.minutes - gone - self.plan.after_training_s

    def _tell(self, stage: str) -> None:
        if self.stages.costs[stage].cut_short:
            line = f"{CUT_SHORT}: {stage} was ended before it was through; what it had is used"
            self.told.append(line)
            print(line, file=sys.stderr)

    def _threads_and_seed(self) -> tuple[int, int]:
        return self.settings.torch_threads, self.settings.seed


def play_held_out_tasks(
    settings: AdaptSettings, held_out: Path, part: Path, agent: Sequence[str]
) -> int:
    """Play held-out tasks, and those of --test; return the exit code."""
    files = {"held_out": held_out} | ({"test": settings.test.resolve()} if settings.test else {})
    for name, file in files.items():
        output = part / f"{name}.jsonl"
        words = ["run", "--dataset_path", os.fspath(file), "--output", str(output), *agent]
        words += ["--allow_task_tools", "--concurrency", CONCURRENCY]
        words += ["--max_steps_per_turn", str(turn_step_limit(settings))]
        if code := run_command_in_process([*words, "--resume"] if output.exists() else words):
            return code
    return 0


def evaluate_endpoint(settings: AdaptSettings, num_tasks: int) -> Stages:
    """Let an endpoint's model answer tasks; return the stages, of which "score" holds them."""
    assert settings.evaluate is not None
    require_specification(settings)
    settings.keep()
    stages = Stages(settings.output / "work")

    def make(part: Path) -> int:
        if settings.tasks is None:
            make_tasks(settings, part, num_tasks + 2, num_tasks)
        else:  # all of them, whoever they were made for
            write_split(read_task_entries(settings.tasks)[:num_tasks], num_tasks, part)
        return 0

    def answer(part: Path) -> int:
        words = ["--agent", str(settings.evaluate)]
        if settings.base_url:
            words += ["--base_url", settings.base_url]
        code = play_held_out_tasks(settings, stages.path("tasks") / HELD_OUT, part, words)
        return 2 if code == INTERRUPTED else code

    stages.run("tasks", make)
    stages.run("score", answer)
    return stages


def _run_folder(stage: Path) -> Path:
    """Return the run's folder in a training stage's."""
    found = sorted(stage.glob("results/*/*/*/*/config.json"))
    if not found:
        raise AdaptError(f"{stage}: holds no run: remove it, and the same command goes on")
    return found[0].parent
