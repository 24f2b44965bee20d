"""Training progress bar."""

from __future__ import annotations

import os
import sys
from typing import Any

# A bar of fixed width, for the figures behind it would leave a filling one a single column.
BAR_FORMAT = "{desc}{n_fmt}/{total_fmt} |{bar:12}| {elapsed}<{remaining}{postfix}"
EVALUATED = (
    *("greedy", "greedy_strict", "greedy_return"),
    *("sampled", "sampled_strict", "sampled_return"),
)


class Progress:
    """Progress of a run on the screen: a bar on a terminal, else one line per update."""

    def __init__(self, num_updates: int, done: int, *, shown: bool = True) -> None:
        """shown: whether anything is printed; of several processes only the first shows."""
        self._shown = shown
        self._num_updates = num_updates
        self._episodes = 0
        self._bar: Any = None
        self._supervised_bar: Any = None
        if shown and _shows_bars():
            from tqdm import tqdm

            self._bar = tqdm(
                total=num_updates, initial=done, dynamic_ncols=True, bar_format=BAR_FORMAT
            )

    def count_episode(self, _: object) -> None:
        """Count a collected episode."""
        self._episodes += 1
        if self._bar is not None:
            self._bar.set_description(
                f"{self._episodes} episodes", refresh=self._episodes % 16 == 0
            )

    def show_update(self, metrics: dict[str, float | None], run: Any) -> None:
        """Show an update: success rate, return, KL, tokens a second, names of alarms."""
        number = run.counters.updates
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
        text = "  ".join(f"{name} {value}" for name, value in shown.items() if value != "-")
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update()
        elif self._shown:
            print(f"update {number}/{self._num_updates}  {text}", flush=True)

    def show_evaluation_start(self, num_tasks: int, what: str = "before the first update") -> None:
        """Show that an evaluation starts, which may take minutes without a line."""
        self._write(f"playing {num_tasks} held-out tasks twice, greedily and sampled, {what} ...")

    def show_supervised_step(self, metrics: dict[str, float], steps: int, num_steps: int) -> None:
        """Show a supervised step: on a terminal each, else some twenty of them."""
        shown = f"loss {metrics['loss']:.3f}  sure of {metrics['confident_token_share']:.0%}"
        if self._bar is not None:
            if self._supervised_bar is None:
                from tqdm import tqdm

                self._supervised_bar = tqdm(
                    total=num_steps, initial=steps - 1, unit="step", dynamic_ncols=True
                )
            self._supervised_bar.set_description(shown, refresh=False)
            self._supervised_bar.update()
            if steps >= num_steps:
                self._supervised_bar.close()
        elif self._shown and (steps % max(1, num_steps // 20) == 0 or steps in (1, num_steps)):
            print(f"supervised step {steps}/{num_steps}  {shown}", flush=True)

    def show_evaluation(self, rates: dict[str, Any], what: str = "held-out tasks") -> None:
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
        if self._supervised_bar is not None:
            self._supervised_bar.close()
        if self._bar is not None:
            self._bar.close()


def _shows_bars() -> bool:
    """Whether standard error is a terminal with columns: some, of containers, say they have 0."""
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        return False


def _shown(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)
