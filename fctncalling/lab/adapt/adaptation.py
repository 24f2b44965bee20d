"""Adaptation: plan, tasks, base score, supervised stage, TPPO, export, score, report."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from fctncalling.lab.adapt.adapt_plan import (
    LEAST_MARGIN_S,
    NO_UPDATES,
    PROBE_HELD_OUT,
    PROBE_SHARE,
    PROBE_TASKS,
    AdaptPlan,
    ProbeTimes,
    busy_text,
    estimate_text,
    plan_for,
    probe_flags,
    probe_that_fits,
    read_probe_times,
    reinforcement_learning_flags,
    supervised_flags,
)
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.adapt.base_model import BaseModel, inspect_base_model
from fctncalling.lab.adapt.played import StageAnswers, success_rate
from fctncalling.lab.adapt.scoring import (
    BASE_SHARE,
    SCORING_SHARE,
    answered_by_all,
    answered_files,
    play_tasks,
    run_agent,
)
from fctncalling.lab.adapt.stage import CUT_SHORT, INTERRUPTED, Stages, uninterrupted
from fctncalling.lab.adapt.task_files import (
    HELD_OUT,
    TRAIN,
    coverage_of,
    make_tasks,
    read_task_entries,
    require_specification,
    run_command_in_process,
    turn_step_limit,
    write_entries,
    write_split,
)
from fctncalling.lab.adapt.timed_pass import time_pass

SCORES = ("base", "supervised_score", "tppo_score")
GRACE_SHARE, LEAST_GRACE_S = 0.1, 20.0  # of the minutes, for a stage that is told to end
PROBE_GRACE_S = 5.0  # for a probe that is told to end: nothing of it is kept
LEAST_PROBE_S = 20.0  # in which a model is at least read, though the minutes be a toy's
LEAST_SCORE = 0.08  # of the minutes, however late it is: what was trained is judged
LATE = 1.25  # times its seconds a score may take before it is told to end
FORGED_SHARE = 0.8  # of what was planned: an API that gave fewer tasks has no others
SLOWEST_FORGED_S = 0.02  # a task; the probe's few have the start of the forge in their time


class Adaptation:
    """One adaptation, stage by stage; stages that are done are skipped."""

    def __init__(self, settings: AdaptSettings) -> None:
        assert settings.model is not None
        begun = time.monotonic()
        self.settings = settings
        require_specification(settings)
        self.model: BaseModel = inspect_base_model(settings.model)
        settings.keep()  # a SPEC or a model that cannot be read claims no folder
        grace_s = max(LEAST_GRACE_S, GRACE_SHARE * 60 * settings.minutes)
        self.stages = Stages(settings.output / "work", begun, grace_s)
        self.plan: AdaptPlan
        self.told: list[str] = []  # what the minutes cut short

    def run(self) -> None:
        """Do all stages; AdaptError where one fails."""
        self.make_plan()
        self.stages.run("tasks", self._tasks)
        self._score("base", lambda _: str(self.settings.model), BASE_SHARE)
        self._extend()
        supervised = self.stages.run("supervised", self._supervised, deadline=self._supervised_end)
        self._tell("supervised")
        learned = self._checkpoint(supervised)
        if learned is None:
            self.stages.reopen("supervised")
            self.told.append(
                "nothing was learned in the minutes: the same command with more --minutes goes on"
            )
            return
        share = 0.5 if self.plan.updates else 1.0
        self._score("supervised_score", lambda part: self._export(learned, part), share)
        if not self.plan.updates:
            self.told.append(NO_UPDATES)
        else:
            work, end = partial(self._tppo, learned), self._deadline(1)
            self.stages.run("tppo", work, deadline=end)
            self._tell("tppo")
            last = self._checkpoint(self.stages.path("tppo"))
            if last is not None:
                self._score("tppo_score", lambda part: self._export(last, part), 1.0)
        self._tell_share()

    @property
    def shipped(self) -> str | None:
        """The score stage of the model that is kept: the better trained one on held-out tasks."""
        played = self.played()
        names = [name for name in ("tppo_score", "supervised_score") if name in played]
        return max(names, key=lambda name: success_rate(played[name].held_out), default=None)

    def make_plan(self) -> None:
        """Plan the minutes by a probe, and print the plan."""
        self.plan = self._plan()
        print(self.plan.text(), file=sys.stderr)
        if said := coverage_of(self.stages.path("probe")):
            print(f"the API: {said.rpartition('; ')[2]}", file=sys.stderr)

    def played(self) -> dict[str, StageAnswers]:
        """Return each score stage's answers to the tasks that all stages answered."""
        names = [name for name in SCORES if name in self.stages.costs]
        found = {name: StageAnswers.read(self.stages.path(name)) for name in names}
        if not found.get(SCORES[-1], StageAnswers([], [])).all:
            found.pop(SCORES[-1], None)  # not judged, so not compared
        return answered_by_all(found)

    def _plan(self) -> AdaptPlan:
        folder = self.stages.path("plan")
        if not folder.is_dir():
            times, settings = self._probe_times(), self.settings
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

    def _probe_times(self) -> ProbeTimes:
        """Time a pass, and a probe where it fits, within PROBE_SHARE of the minutes."""
        most = max(PROBE_SHARE * 60 * self.settings.minutes, LEAST_PROBE_S)
        print(
            f"a pass of the model is timed, then a short probe: {most:.0f} s at most",
            file=sys.stderr,
        )
        end = time.monotonic() + max(0.0, most - self.stages.wall_seconds)
        probe = self.stages.run("probe", self._probe, deadline=end, grace_s=PROBE_GRACE_S)
        if not (file := probe / "pass.json").exists():
            cost = self.stages.costs["probe"]
            self.stages.reopen("probe")
            busy = busy_text(cost.cpu_seconds / max(cost.wall_seconds, 1e-9))
            least = math.ceil(most / 60 / PROBE_SHARE) * 4
            raise AdaptError(
                f"--minutes {self.settings.minutes:g}: one pass of the model was not through in "
                f"{most:.0f} s, a fifth of them: pass at least {least}{busy and f' ({busy})'}"
            )
        told = json.loads(file.read_text(encoding="utf-8"))
        held_out = told.pop("num_held_out")
        found = _run_folder(probe) if any(probe.glob("results/*/*/*/*/config.json")) else None
        cost = self.stages.costs["probe"]
        times = read_probe_times(found, cost, ProbeTimes(**told), held_out)
        if cost.cut_short:
            print(estimate_text(self.settings.minutes, times, None), file=sys.stderr)
        return times

    def _probe(self, part: Path) -> int:
        started, settings = time.monotonic(), self.settings
        made = make_tasks(settings, part, PROBE_TASKS + PROBE_HELD_OUT, PROBE_HELD_OUT)
        forged_task = (time.monotonic() - started) / made
        forged_task = 0.0 if settings.tasks else min(forged_task, SLOWEST_FORGED_S)
        tasks = read_task_entries(part / TRAIN)

        def keep(rough: ProbeTimes, num_held_out: int = 1) -> None:
            told = {**asdict(rough), "num_held_out": num_held_out}
            (part / "pass.json").write_text(json.dumps(told), encoding="utf-8")

        rough = time_pass(self.model, tasks[0], settings.torch_threads, forged_task, keep)
        probe = probe_that_fits(settings.minutes, rough, self.stages.wall_seconds)
        print(estimate_text(settings.minutes, rough, probe), file=sys.stderr, flush=True)
        num_tasks, num_held_out = probe or (0, 1)
        keep(rough, num_held_out)
        if probe is None:
            return 0
        write_entries(part / TRAIN, tasks[:num_tasks])
        flags = probe_flags(self.model, *self._threads_and_seed(), num_held_out)
        return self._train(part, part, flags)

    def _tasks(self, part: Path) -> int:
        make_tasks(self.settings, part, self.plan.num_tasks, self.plan.num_held_out)
        return 0

    def _extend(self) -> None:
        """Give minutes that the base score left over to the supervised stage."""

        def extend(part: Path) -> int:
            at_hand = len(read_task_entries(self.stages.path("tasks") / TRAIN))
            is_all = self.settings.tasks is not None or at_hand < FORGED_SHARE * self.plan.num_train
            left = self._supervised_end - time.monotonic()
            plan = self.plan.extended(left, at_hand if is_all else None)
            if plan != self.plan and not is_all:
                make_tasks(self.settings, part, plan.num_tasks, plan.num_held_out)
                if len(read_task_entries(part / TRAIN)) < at_hand:  # the API has no others
                    (part / TRAIN).unlink()
                    plan = self.plan
            if plan != self.plan:
                more = f"{plan.num_train} tasks, {plan.epochs} passes"
                print(f"minutes are left over: the supervised stage has {more}", file=sys.stderr)
            return plan.write(part)

        self.plan = AdaptPlan.read(self.stages.run("extension", extend))

    @property
    def _supervised_end(self) -> float:
        """When the supervised stage has to end, by time.monotonic."""
        return self._deadline(2 if self.plan.updates else 1) - self.plan.seconds["tppo"]

    def _supervised(self, part: Path) -> int:
        flags = self.model.training_flags(*self._threads_and_seed())
        flags += [*supervised_flags(self.plan.epochs), "--num_updates", "0"]
        further = self.stages.path("extension")
        tasks = further if (further / TRAIN).exists() else self.stages.path("tasks")
        return self._train(tasks, part, [*flags, "--eval_episodes", "1"])

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

    def _export(self, checkpoint: Path, part: Path) -> str | int:
        """Return the exported model, or an exit code."""
        model = part / "model"
        words = ["export", "--checkpoint", str(checkpoint), "--output", str(model)]
        with uninterrupted():
            code = 0 if model.exists() else run_command_in_process(words)
        return code or str(model)

    def _score(self, name: str, model_in: Callable[[Path], str | int], share: float) -> None:
        """Score a model within its share of the time left for scoring; the last one within all."""
        seconds = share * max(self._scoring_left, 0.0)
        if share == 1.0:
            seconds = max(seconds, self._left - LEAST_MARGIN_S)

        def work(part: Path) -> int:
            model, files, drawn = model_in(part), self._requests(), self.stages.folder / "drawn"
            if isinstance(model, int):
                return model
            if name != SCORES[0]:
                before = StageAnswers.read(self.stages.path(SCORES[0]))
                files = answered_files(files, before, drawn)
            play = run_agent(self.settings, self._agent(model))
            seed = self.settings.seed
            return play_tasks(files, part, drawn, play, seconds=seconds, seed=seed)

        most = max(seconds, LEAST_SCORE * 60 * self.settings.minutes) * LATE
        self.stages.run(name, work, deadline=time.monotonic() + most)

    def _requests(self) -> dict[str, Path]:
        """Return the files of tasks to score: held-out ones, and the user's."""
        own = {"test": self.settings.test.resolve()} if self.settings.test else {}
        return {"held_out": self.stages.path("tasks") / HELD_OUT, **own}

    def _agent(self, model: str) -> list[str]:
        words = ["--agent", f"hf:{model}", "--torch_threads", str(self.settings.torch_threads)]
        words += ["--max_episode_tokens", str(self.model.max_episode_tokens)]
        return [*words, "--max_new_tokens", "128", "--prompt_style", self.model.prompt_style]

    def _checkpoint(self, stage: Path) -> Path | None:
        """Return a training stage's last checkpoint; None where the minutes left none."""
        from fctncalling.lab.export import checkpoint_in

        try:
            return checkpoint_in(_run_folder(stage))
        except ValueError:
            return None

    @property
    def _scoring_left(self) -> float:
        """Seconds that scoring has left of its share."""
        costs = self.stages.costs
        gone = sum(costs[name].wall_seconds for name in SCORES if name in costs)
        return SCORING_SHARE * 60 * self.settings.minutes - gone

    @property
    def _left(self) -> float:
        """Seconds that are left of the minutes."""
        return 60 * self.settings.minutes - self.stages.wall_seconds

    def _deadline(self, num_scores: int) -> float:
        """Return when training has to end, by time.monotonic, with scores to come.

        A score takes what was planned, longer where the base model's did.
        """
        planned = self.plan.seconds
        slowdown = max(1.0, self.stages.costs["base"].wall_seconds / max(planned["base"], 1.0))
        score = slowdown * planned["score"] / (2 if self.plan.updates else 1)
        after = min(num_scores * score, max(self._scoring_left, 0.0)) + LEAST_MARGIN_S
        return time.monotonic() + self._left - after

    def _tell(self, stage: str) -> None:
        cost = self.stages.costs[stage]
        if cost.cut_short:
            why = " (killed from outside: has it too little memory?)" if cost.killed else ""
            line = f"{CUT_SHORT}: {stage} was ended before it was through{why}; what it had is used"
            self.told.append(line)
            print(line, file=sys.stderr)

    def _tell_share(self) -> None:
        """Report how many requests were scored, if not all."""
        total = sum(len(read_task_entries(file)) for file in self._requests().values())
        scored = min((len(each.all) for each in self.played().values()), default=0)
        if scored < total:
            self.told.append(
                f"scored: {scored} of {total} requests, drawn: a third of the minutes is for that"
            )

    def _threads_and_seed(self) -> tuple[int, int]:
        return self.settings.torch_threads, self.settings.seed


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
        files = {"held_out": stages.path("tasks") / HELD_OUT}
        files |= {"test": settings.test.resolve()} if settings.test else {}
        code = play_tasks(files, part, part, run_agent(settings, words))
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
