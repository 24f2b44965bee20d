"""AdaptPlan: how much of everything the minutes allow, by a short probe.

One pass of the model is timed first. It says whether a probe fits into its fifth of the minutes:
few tasks, forged, learned and played with the very settings of the stages. Figures are rounded down
so that small differences of the clock change nothing.

Forged demonstrations never run out, and a new one teaches more than an episode of TPPO, which costs
several times as much: TPPO gets what MOST_TASKS demonstrations leave of the minutes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fctncalling.lab.adapt.base_model import BaseModel
from fctncalling.lab.adapt.played import FEWEST_CALL_TASKS
from fctncalling.lab.adapt.scoring import FIRST, SCORING_SHARE
from fctncalling.lab.adapt.stage import StageCost

BATCH = 8  # begin alike: their functions are computed once a step; more of them, fewer steps
PROBE_TASKS, PROBE_HELD_OUT = 4 * BATCH, 2
PROBES = ((PROBE_TASKS, PROBE_HELD_OUT), (2 * BATCH, 1))  # (tasks, held-out ones), the best first
PROBE_SHARE = 0.2  # at most, of all minutes
LEAST_STEPS = 25  # of the supervised stage, for anything to be learned
SCORE_SHARE = 0.08  # at most, of all minutes
MOST_TASKS, LEAST_HELD_OUT, MOST_HELD_OUT, MOST_EPOCHS = 8_000, 8, 200, 4
EPISODES_PER_UPDATE, PARALLEL_EPISODES = 64, 16
EPISODE_COST = 3.0  # demonstrations that an episode of TPPO costs beside its answer
SIDE_BY_SIDE = 0.45  # an answer among PARALLEL_EPISODES takes so much of one of the probe's few
BASE_SIDE_BY_SIDE = 0.85  # of the base model, whose longest answers are waited for
BUSY_SHARE = 0.8  # of a core: a process that gets less is not alone
WORTH = 1.1  # times as many tasks are forged anew where minutes are left over, not fewer
FEWEST_UPDATES, MOST_UPDATES = 5, 200  # with fewer of them TPPO is left out
LEAST_MARGIN_S = 5.0
FORGE_GB = 0.33
NO_UPDATES = "no TPPO: in these minutes further demonstrations teach more"


@dataclass(frozen=True)
class ProbeTimes:
    """Seconds that the probe measured."""

    demonstration: float  # a supervised step's share of one
    answer: float  # a held-out task, answered by a model that was taught
    start: float  # until a stage's work begins
    forged_task: float
    cpu_share: float  # CPU seconds a second
    memory_gb: float  # of training
    play_gb: float = 0.0  # of a model that answers
    base_answer: float = 0.0  # by the base model, which may not know where to end
    side_by_side: float = SIDE_BY_SIDE  # an answer among PARALLEL_EPISODES, in `answer`
    base_side_by_side: float = BASE_SIDE_BY_SIDE  # of the base model, in `base_answer`

    @property
    def update_episode(self) -> float:
        """An episode of an update, collected and learned: not measured."""
        return self.scored + EPISODE_COST * self.demonstration

    def score(self, num_tasks: int, *, base: bool = False) -> float:
        """Return the time of a score."""
        return self.start + num_tasks * (self.base_scored if base else self.scored)

    @property
    def scored(self) -> float:
        """An answer among others."""
        return self.side_by_side * self.answer

    @property
    def base_scored(self) -> float:
        """An answer of the base model among others."""
        return self.base_side_by_side * max(self.base_answer, self.answer)

    def probe(self, num_tasks: int, num_held_out: int) -> float:
        """Return the time of a probe, which plays each held-out task twice before and after."""
        played = 2 * num_held_out * (self.base_answer + self.answer)
        return self.start + num_tasks * self.demonstration + played

    @property
    def least_minutes(self) -> int:
        """The fewest minutes in which LEAST_STEPS are learned and a first few tasks are scored."""
        probe = self.probe(*PROBES[-1])
        scores = self.score(FIRST) + self.score(FIRST, base=True)
        demonstrations = LEAST_STEPS * BATCH * (self.demonstration + self.forged_task)
        learning = self.start + demonstrations + 2 * (self.base_answer + self.answer)
        whole = probe + scores + learning + LEAST_MARGIN_S
        return math.ceil(max(whole, scores / SCORING_SHARE, probe / PROBE_SHARE) / 60)


def probe_that_fits(minutes: float, rough: ProbeTimes, spent_s: float) -> tuple[int, int] | None:
    """Return (tasks, held-out tasks) of the best probe that keeps to its share; None for none."""
    left = PROBE_SHARE * 60 * minutes - spent_s
    return next((probe for probe in PROBES if rough.probe(*probe) <= left), None)


def estimate_text(minutes: float, rough: ProbeTimes, probe: tuple[int, int] | None) -> str:
    """Return the estimate of a timed pass as lines for a terminal: probe and least minutes."""
    step, least = BATCH * rough.demonstration, rough.least_minutes
    line = f"about {step:.1f} s a step of {BATCH} tasks, {rough.answer:.1f} s an answer: "
    if probe is not None:
        line += f"the probe takes about {rough.probe(*probe):.0f} s"
    else:
        line += (
            "no whole probe fits into a fifth of the minutes: the plan is made of what was timed"
        )
    if minutes < least:
        line += (
            f"\n--minutes {minutes:g} is too few for this model on this machine: {least} is the "
            f"least, for {LEAST_STEPS} steps; what fits is done"
        )
    if busy := busy_text(rough.cpu_share):
        line += (
            f"\n{busy}: these are seconds of the clock, fewer on a free one; minutes left over go "
            "into further steps"
        )
    return line


def busy_text(cpu_share: float) -> str:
    """Return that a machine gives a process less than a core; "" where it does not."""
    if cpu_share >= BUSY_SHARE:
        return ""
    return f"the machine is busy, and gives {100 * cpu_share:.0f} % of a core"


@dataclass(frozen=True)
class AdaptPlan:
    """Plan of the minutes: what is done, and what each stage is expected to take."""

    minutes: float
    num_tasks: int
    num_held_out: int
    epochs: int
    updates: int
    episodes_per_update: int
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    memory_gb: dict[str, float] = field(default_factory=dict)
    spent_s: float = 0.0  # by the probe, before the stages
    scored_share: float = 1.0  # of the requests, about
    num_test: int = 0  # requests of the user's own, by which the gate decides
    demonstration_s: float = 0.0  # a supervised step's share of one; 0: unknown
    forged_task_s: float = 0.0

    @property
    def num_train(self) -> int:
        """Tasks to learn from."""
        return self.num_tasks - self.num_held_out

    def extended(self, left: float, tasks_at_hand: int | None) -> AdaptPlan:
        """Return the plan with the supervised stage that fits into `left` seconds, never a shorter.

        `tasks_at_hand`: those to learn from, which are passed more often; None where further ones
        can be forged. A plan with TPPO stays as it is.
        """
        if self.updates or not self.demonstration_s:
            return self
        learned = self.epochs * self.num_train * self.demonstration_s
        left -= self.seconds["supervised"] - learned
        if tasks_at_hand is None:
            at_hand, epochs = self.num_train, self.epochs
            fitting = left / (self.demonstration_s + self.forged_task_s)
            num_train = _rounded(min(max(fitting, 1.0), MOST_TASKS))
        else:
            num_train = at_hand = tasks_at_hand
            epochs = min(MOST_EPOCHS, int(left / (tasks_at_hand * self.demonstration_s)))
        if epochs * num_train < WORTH * self.epochs * at_hand:
            return self
        more = epochs * num_train * self.demonstration_s - learned
        cpu_share = self.cpu_seconds["supervised"] / self.seconds["supervised"]
        return replace(
            self,
            num_tasks=num_train + self.num_held_out,
            epochs=epochs,
            seconds={**self.seconds, "supervised": round(self.seconds["supervised"] + more, 1)},
            cpu_seconds={
                **self.cpu_seconds,
                "supervised": round(self.cpu_seconds["supervised"] + more * cpu_share, 1),
            },
        )

    def text(self) -> str:
        """Return the plan as lines for a terminal."""
        lines = [
            f"plan for {self.minutes:g} minutes: {self.num_tasks} tasks, {self.epochs} "
            f"passes, {self.updates} updates of {self.episodes_per_update} episodes, "
            f"{self.num_held_out} held-out tasks"
        ]
        for name, seconds in self.seconds.items():
            cpu, memory = self.cpu_seconds[name], self.memory_gb[name]
            lines.append(f"  {name:11} {seconds:7.0f} s  {cpu:7.0f} CPU s  {memory:5.1f} GB")
        needed = (self.spent_s + sum(self.seconds.values())) / 60
        if needed > self.minutes:
            lines.append(
                f"these stages need about {needed:.1f} minutes, more than --minutes "
                f"{self.minutes:g}: give more minutes"
            )
        if self.scored_share < 1:
            share = f"{100 * self.scored_share:.0f} % of the requests"
            lines.append(f"about {share}, drawn, are scored: a third of the minutes is for that")
        judged = round(self.scored_share * (self.num_test or self.num_held_out))
        if judged < FEWEST_CALL_TASKS:
            kind = "requests of --test" if self.num_test else "held-out tasks"
            cure = "more in --test" if self.num_test else "more minutes or --test"
            lines.append(
                f"{judged} {kind} are too few for 'may be shipped' ({FEWEST_CALL_TASKS} with "
                f"calls): give {cure}"
            )
        if not self.updates:
            lines.append(NO_UPDATES)
        return "\n".join(lines)

    def write(self, folder: Path) -> int:
        """Write the plan to a folder, as a stage does; return its exit code."""
        (folder / "plan.json").write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        return 0

    @classmethod
    def read(cls, folder: Path) -> AdaptPlan:
        """Return the plan of a folder."""
        return cls(**json.loads((folder / "plan.json").read_text(encoding="utf-8")))


def plan_for(
    minutes: float, times: ProbeTimes, *, num_test: int, tasks_at_hand: int | None, spent_s: float
) -> AdaptPlan:
    """Return the plan that keeps to the minutes; `spent_s` of them are gone."""
    total = 60.0 * minutes
    a_task = times.base_scored + times.scored
    most = SCORE_SHARE * total / max(a_task, 1e-6) - num_test
    num_held_out = _rounded(min(max(most, LEAST_HELD_OUT), MOST_HELD_OUT))
    if tasks_at_hand is not None:
        num_held_out = max(1, min(num_held_out, tasks_at_hand // 5))
    num_requests = num_held_out + num_test
    in_share = (SCORING_SHARE * total - 2 * times.start) / max(a_task, 1e-6)
    num_scored = min(num_requests, max(FIRST, int(in_share)))
    score = times.score(num_scored)
    base = times.score(num_scored, base=True)
    looks = 2 * (times.base_answer + times.answer)  # of the supervised stage at one held-out task
    left = total - spent_s - base - score - times.start - looks - 1.0 - LEAST_MARGIN_S
    demonstrations = max(BATCH, left / (times.demonstration + times.forged_task))
    num_train = _rounded(min(demonstrations, MOST_TASKS))
    epochs = 1
    if tasks_at_hand is not None:
        num_train = max(1, min(num_train, tasks_at_hand - num_held_out))
        passes = int(left / (num_train * max(times.demonstration, 1e-9)))
        epochs = max(1, min(MOST_EPOCHS, passes))
    num_tasks = num_train + num_held_out
    learning = epochs * num_train * times.demonstration
    for_updates = left - learning - num_tasks * times.forged_task - score - times.start
    an_update = EPISODES_PER_UPDATE * times.update_episode
    updates = min(_rounded(max(0.0, for_updates / max(an_update, 1e-9))), MOST_UPDATES)
    updates = updates if updates >= FEWEST_UPDATES else 0
    seconds = {
        "tasks": 1.0 + num_tasks * times.forged_task,
        "base": base,
        "supervised": times.start + looks + learning,
        "tppo": times.start + updates * an_update if updates else 0.0,
        "score": score * (2 if updates else 1),
    }
    memory = {"tasks": FORGE_GB, "base": times.play_gb, "score": times.play_gb}
    return AdaptPlan(
        minutes,
        num_tasks,
        num_held_out,
        epochs,
        updates,
        EPISODES_PER_UPDATE,
        {name: round(each, 1) for name, each in seconds.items()},
        {name: round(each * times.cpu_share, 1) for name, each in seconds.items()},
        {name: round(memory.get(name, times.memory_gb), 2) for name in seconds},
        round(spent_s, 1),
        round(num_scored / num_requests, 2),
        num_test,
        times.demonstration,
        times.forged_task,
    )


def _rounded(number: float) -> int:
    """Return a number rounded down to two digits, the second even."""
    whole = int(number)
    step = 10 ** max(0, int(math.log10(max(whole, 1))) - 1) * 2
    return max(1, whole // step * step) if whole >= step else max(1, whole)


def probe_flags(model: BaseModel, torch_threads: int, seed: int, held_out: int) -> list[str]:
    """Return the flags of the probe's training, which plays so many held-out tasks."""
    return [
        *model.training_flags(torch_threads, seed),
        *(*supervised_flags(1), "--num_updates", "0", "--eval_episodes", str(held_out)),
    ]


def supervised_flags(epochs: int) -> list[str]:
    """Return the flags of the supervised stage."""
    return [
        *("--sft_tasks", "dataset", "--sft_epochs", str(epochs), "--sft_batch_size", str(BATCH)),
        *("--sft_lr", "4e-4", "--sft_group_by_prefix", "--sft_fixed_prefixes"),
    ]


def reinforcement_learning_flags(updates: int, episodes: int) -> list[str]:
    """Return the flags of reinforcement learning: a warm-up shorter where updates are few."""
    return [
        *("--num_updates", str(updates), "--episodes_per_update", str(episodes)),
        *("--n_rollout_threads", str(PARALLEL_EPISODES), "--num_mini_batch", "2"),
        *("--warmup_updates", str(min(5, updates // 5))),
        *("--eval_interval", "0", "--log_episodes_interval", "0"),
    ]


def read_probe_times(
    run_folder: Path | None, cost: StageCost, rough: ProbeTimes, num_held_out: int
) -> ProbeTimes:
    """Return a probe's measured times, with rough times for the stages that it did not reach."""
    timings: list[dict[str, Any]] = []
    if run_folder is not None and (file := run_folder / "timings.jsonl").exists():
        timings = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    steps = _values(timings, "sft/time_s")
    by_base = sum(_values(timings, "perf/time_s/base_evaluation"))
    evaluated = sum(_values(timings, "perf/time_s/evaluation"))
    settled, answers = steps[1:] or steps, 2 * num_held_out
    is_whole = bool(steps and evaluated) and not cost.cut_short
    start = cost.wall_seconds - sum(steps) - by_base - evaluated
    return replace(
        rough,
        demonstration=sum(settled) / len(settled) / BATCH if steps else rough.demonstration,
        answer=evaluated / answers if evaluated else rough.answer,
        base_answer=by_base / answers if by_base else rough.base_answer,
        side_by_side=SIDE_BY_SIDE if evaluated else rough.side_by_side,
        base_side_by_side=BASE_SIDE_BY_SIDE if by_base else rough.base_side_by_side,
        start=max(1.0, start) if is_whole else rough.start,
        cpu_share=cost.cpu_seconds / max(cost.wall_seconds, 1e-9),
        memory_gb=max(cost.peak_memory_gb, rough.memory_gb),  # few have the longest of passes
    )


def _values(timings: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(each[name]) for each in timings if each.get(name) is not None]
