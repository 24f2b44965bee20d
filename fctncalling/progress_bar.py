"""Progress of a run on the screen: bars on a terminal, else lines, at least every half minute."""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib.util import find_spec
from typing import Any, Self

# A bar of fixed width, for the figures behind it would leave a filling one a single column.
# What tqdm takes to remain leaves evaluations out: the figures tell what is left.
BAR_FORMAT = "{desc}{n_fmt}/{total_fmt} |{bar:12}| {elapsed}{postfix}"
EVALUATED = (
    *("greedy", "greedy_strict", "greedy_return"),
    *("sampled", "sampled_strict", "sampled_return"),
)
EVALUATION, COLLECTING, LEARNING = "evaluation", "collecting", "learning"
LINE_EVERY_S = 30.0
REFRESH_EVERY_S = 1.0  # of a bar, or its clock would stand still while nothing ends


class Stage:
    """Context manager: a stage of a run, with a progress bar while it lasts.

    A bar on a terminal; else a line every half minute: what is done, and how much time is left.
    """

    def __init__(
        self,
        name: str,
        total: int = 0,
        unit: str = "",
        *,
        shown: bool = True,
        bar: Any = None,
        lines_to: Any = None,
        behind: str = "",
        times: StageTimes | None = None,
    ) -> None:
        """total: of what `count` counts; 0: unknown. bar: in place of one that ends with it.

        lines_to: stream of the lines, where no bar is shown; none: stdout. behind: what follows,
        told with the time that is left. times: that take down how long it lasted.
        """
        self._name = name
        self._total = total
        self._unit = unit
        self._shown = shown
        self._bar = bar
        self._lines_to = lines_to
        self._behind = behind
        self._times = times
        self._owns_bar = bar is None
        self._done = 0
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_showing, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if not self._shown:
            return self
        if self._bar is not None:
            self._bar.set_description(self._name)
        elif _shows_bars():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self._name,
                total=self._total or None,
                unit=f" {self._unit}s",
                bar_format=None if self._unit else "{desc}: {elapsed}",
                leave=False,
                dynamic_ncols=True,
            )
            if self._behind:
                self._bar.set_postfix_str(self._behind.lstrip(", "), refresh=False)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._times is not None:
            self._times.add(self._name, time.monotonic() - self._started, self._done)
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._bar is not None and self._owns_bar:
            self._bar.close()

    def count(self, _: object = None, text: str = "") -> None:
        """Count one more; text: stands in front of the bar."""
        self._done += 1
        if self._bar is None:
            return
        if not self._owns_bar:
            text = f"{self._name} {self._counted()}"
        if text:
            self._bar.set_description(text, refresh=False)
        if self._owns_bar:
            self._bar.update()

    def line(self) -> str:
        """Return the line with the progress of the stage."""
        spent = time.monotonic() - self._started
        text = f"{self._name}: {duration_text(spent)} so far"
        if self._total or (self._done and self._unit):
            text += f", {self._counted()} {self._unit}s"
        if 0 < self._done <= self._total:
            left = spent * (self._total - self._done) / self._done
            text += f", about {duration_text(left)} left{self._behind}"
        return text

    def _counted(self) -> str:
        """Return "done of total"; extra rounds of a collection may exceed the total."""
        return f"{self._done} of {self._total}" if self._done <= self._total else f"{self._done}"

    def _keep_showing(self) -> None:
        while not self._ended.wait(LINE_EVERY_S if self._bar is None else REFRESH_EVERY_S):
            if self._bar is None:
                print(self.line(), file=self._lines_to, flush=True)
            else:
                self._bar.refresh()


def duration_text(seconds: float) -> str:
    """Format a duration for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class StageTimes:
    """Times of the stages of a run since it was started or resumed, for what is left of it."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}
        self._counted: dict[str, int] = {}

    def add(self, name: str, seconds: float, counted: int) -> None:
        """Add a stage that ended, and how many (episodes) it counted."""
        self._seconds.setdefault(name, []).append(seconds)
        self._counted[name] = self._counted.get(name, 0) + counted

    def evaluation(self, episodes: int) -> float:
        """Return the seconds of one more evaluation: as the last, else as episodes took."""
        if last := self._seconds.get(EVALUATION):
            return last[-1]
        collecting, played = self._seconds.get(COLLECTING, ()), self._counted.get(COLLECTING, 0)
        return episodes * sum(collecting) / max(1, played)

    def left(self, run: Any, num_updates: int) -> float | None:
        """Return the seconds that are left behind an update, evaluations included; None: unknown.

        Of an update the mean; it is of those that were learned from.
        """
        learning = self._seconds.get(LEARNING, ())
        if not learning:
            return None
        update = (sum(self._seconds.get(COLLECTING, ())) + sum(learning)) / len(learning)
        evaluation = self.evaluation(_evaluation_episodes(run))
        updates: int = num_updates - run.counters.updates
        return updates * update + evaluations_left(run, num_updates) * evaluation


def evaluations_left(run: Any, num_updates: int) -> int:
    """Return how many evaluations are to come behind an update: at the interval, and at the end."""
    interval: int = run.config.eval_interval
    done: int = run.counters.updates
    if not interval:
        return 1
    return num_updates // interval - (done - 1) // interval + bool(num_updates % interval)


def _evaluation_episodes(run: Any) -> int:
    """Return the episodes of an evaluation that this process plays."""
    return _share(len(run.held_out_ids) * (1 + run.config.eval_samples), run)


def _share(number: int, run: Any) -> int:
    count: int = run.processes.count
    return -(-number // count)  # a process hears of those that it plays


class Progress:
    """Progress of a run: a bar of its updates on a terminal, else a line for each."""

    def __init__(self, num_updates: int, done: int, *, shown: bool = True) -> None:
        """shown: whether anything is printed; of several processes only the first shows."""
        self._shown = shown
        self._num_updates = num_updates
        self._times = StageTimes()
        self._bar: Any = None
        if shown and _shows_bars():
            from tqdm import tqdm

            self._bar = tqdm(
                total=num_updates, initial=done, dynamic_ncols=True, bar_format=BAR_FORMAT
            )

    def evaluation(self, run: Any) -> Stage:
        """Return the stage of an evaluation, counted in episodes."""
        return self._episodes(EVALUATION, _evaluation_episodes(run))

    def collection(self, run: Any, *, critic: bool = False) -> Stage:
        """Return the stage that collects an update's episodes, or those of the critic's warm-up."""
        if critic:
            episodes = _share(run.config.critic_warmup_episodes, run)
            return self._episodes("critic's warm-up", episodes)
        return self._episodes(COLLECTING, _share(run.config.episodes_per_update, run), self._bar)

    def _episodes(self, name: str, share: int, bar: Any = None) -> Stage:
        return Stage(name, share, "episode", shown=self._shown, bar=bar, times=self._times)

    def learning(self) -> Stage:
        """Return the stage that learns from an update's episodes."""
        return Stage(LEARNING, shown=self._shown, bar=self._bar, times=self._times)

    def supervised_steps(self, number: int, run: Any) -> Stage:
        """Return the stage of so many supervised steps, behind which an evaluation follows."""
        seconds = self._times.evaluation(_evaluation_episodes(run))
        behind = f", then an evaluation of about {duration_text(seconds)}" if seconds else ""
        return Stage("supervised stage", number, "step", shown=self._shown, behind=behind)

    def show_update(self, metrics: dict[str, float | None], run: Any) -> None:
        """Show an update: time left, success rate, return, KL, tokens a second, alarms."""
        number = run.counters.updates
        left = self._times.left(run, self._num_updates)
        stopped = metrics.get("losses/early_stop_epoch")
        shown = {
            "alarms": ",".join(run.update_log.active_alarms) or "-",
            "success": _shown(metrics.get("env/success_rate")),
            "strict": _shown(metrics.get("env/success_rate_strict")),
            "return": _shown(metrics.get("charts/episodic_return")),
            "kl": _shown(metrics.get("losses/approx_kl"), ".1e"),
            "steps cut": _shown(metrics.get("losses/steps_cut") or None, ".0f"),
            "stopped in epoch": _shown(stopped or None, ".0f"),
            "tokens/s": _shown(run.tokens_per_s, ".0f"),
        }
        figures = [f"{name} {value}" for name, value in shown.items() if value != "-"]
        text = "  ".join(figures if left is None else [f"{duration_text(left)} left", *figures])
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update()
        elif self._shown:
            print(f"update {number}/{self._num_updates}  {text}", flush=True)

    def show_evaluation_start(self, num_tasks: int, what: str = "") -> None:
        """Show that an evaluation starts."""
        what = what or "before the first update"
        self._write(f"playing {num_tasks} held-out tasks twice, greedily and sampled, {what} ...")

    def show_supervised_step(
        self, stage: Stage, metrics: dict[str, float], steps: int, num_steps: int
    ) -> None:
        """Show a supervised step: on a terminal at the bar, else some twenty of them."""
        shown = f"loss {metrics['loss']:.3f}  sure of {metrics['confident_token_share']:.0%}"
        stage.count(text=shown)
        often = self._bar is None and steps % max(1, num_steps // 20) == 0
        if often or steps in (1, num_steps):
            self._write(f"supervised step {steps}/{num_steps}  {shown}")

    def show_evaluation(self, rates: dict[str, Any], what: str) -> None:
        """Show the result of an evaluation: success on held-out tasks."""
        shown = (
            f"{kind.replace('_', ' ')} {_shown(rates[kind])}"
            for kind in EVALUATED
            if rates.get(kind) is not None
        )
        self._write(f"{what}: {'  '.join(shown)}")

    def _write(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text)
        elif self._shown:
            print(text, flush=True)

    def close(self) -> None:
        """Close the bar, leaving the terminal as it was."""
        if self._bar is not None:
            self._bar.close()


def _shows_bars() -> bool:
    """Whether standard error is a terminal with columns: some, of containers, report 0."""
    if find_spec("tqdm") is None:
        return False
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        return False


def _shown(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)
