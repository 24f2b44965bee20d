"""Run logging: metrics, timings, episodes, results folder, trackers."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import itertools
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.run.run_lock import RunLock
from fctncalling.data.types import Episode
from fctncalling.data.unsafe_text import json_text

logger = logging.getLogger(__name__)


def check_wandb(mode: str) -> None:
    """Check that wandb is installed where it is asked for; SettingError."""
    if mode != "off" and importlib.util.find_spec("wandb") is None:
        raise SettingError(
            f"--wandb: got {mode}, but wandb is not installed: pip install wandb, or leave it out"
        )


Scalars = Callable[[int, Mapping[str, float]], None]
Tracker = tuple[Scalars, Callable[[], None]]
"""What shows finite numbers at an update, and what writes those that wait and ends it."""


def _tensorboard(folder: Path, first_update: int) -> Tracker:
    """Return a writer of tensorboard events into the run's folder.

    first_update: curves of an earlier go from there on are not shown.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(folder), purge_step=first_update or None)

    def scalars(update: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)

    return scalars, writer.close


def _wandb(folder: Path, config: Mapping[str, Any], mode: str) -> Tracker:
    """Return a sender of curves to wandb; offline, they stay in the folder for `wandb sync`."""
    import wandb  # type: ignore[import-not-found,unused-ignore]

    # The folder is the run: a resumed one goes on in the same curves.
    number = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    run: Any = wandb.init(
        project="fctncalling",
        name="/".join(folder.parts[-4:]),
        id=number,
        resume="allow",
        mode=mode,
        dir=str(folder),
        config=dict(config),
    )
    run.define_metric("*", step_metric="update")
    return lambda update, values: run.log({"update": update, **values}), run.finish


class Trackers:
    """Trackers of a run: TensorBoard and wandb, as configured."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], *, tensorboard: bool, wandb: str
    ) -> None:
        """Raise SettingError where wandb is asked for and not installed."""
        check_wandb(wandb)
        self.folder = folder
        self.config = config
        self.tensorboard = tensorboard
        self.wandb = wandb
        self.first_update = 0
        self._open: list[Tracker] | None = None

    def log_scalars(self, update: int, values: Mapping[str, float | None]) -> None:
        """Log the scalars that are not None to all trackers."""
        if self._open is None:
            self._open = []
            if self.tensorboard:
                try:
                    self._open.append(_tensorboard(self.folder, self.first_update))
                except ImportError:
                    logger.info(
                        "tensorboard is not installed: metrics.jsonl and timings.jsonl hold every "
                        "number"
                    )
            if self.wandb != "off":
                self._open.append(_wandb(self.folder, self.config, self.wandb))
        finite = {
            name: value
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        }
        for show, _ in self._open:
            show(update, finite)

    def close(self) -> None:
        """Close the trackers."""
        for _, close in self._open or ():
            close()


Spell = Callable[[Sequence[int]], str]
BUILTIN_ENVIRONMENTS = frozenset(
    {"fctncalling_env", "clarify", "calculator", "python_math", "team", "tool_text"}
)


class RunExistsError(FileExistsError):
    """Error of a run that exists already in its results folder."""


def results_folder(config: TrainConfig) -> Path:
    """Return the results folder of a config: results/<experiment>/<model>/<dataset>/<algorithm>."""
    name_or_path = config.model_name_or_path
    model = model_folder_name(name_or_path) if name_or_path else "embedded"
    dataset = Path(config.dataset_path).stem if config.dataset_path else "embedded"
    if config.env_name not in BUILTIN_ENVIRONMENTS:  # of which the name says what is learned
        dataset = config.env_name.rpartition(":")[2]
    algorithm = config.algorithm_name.rpartition(":")[2]  # the name of the user's own
    return Path(config.results_dir, config.experiment_name, model, dataset, algorithm)


def model_folder_name(name_or_path: str) -> str:
    """Return the folder name of a model: the last part of its name or path."""
    name = Path(name_or_path).name
    return name if name not in ("", "..") else Path(name_or_path).resolve().name


def require_empty_run_folder(folder: Path) -> None:
    """Require an empty run folder: RunExistsError unless it is empty of runs."""
    metrics = folder / "metrics.jsonl"
    is_there = {
        "metrics.jsonl": metrics.is_file() and metrics.stat().st_size > 0,
        "checkpoints": (folder / "checkpoints").exists(),
    }
    held = [name for name, there in is_there.items() if there]
    if held:
        raise RunExistsError(
            f"{folder} already holds a run ({', '.join(held)}). Continue it with --resume, or keep "
            "it and start another with --experiment_name NAME or --results_dir FOLDER."
        )


class RunLog:
    """Log of a run: writes its files below one folder.

    metrics.jsonl holds nothing that depends on the clock: equal seeds give equal bytes on one
    machine. timings.jsonl holds the rest. Tensorboard and wandb get both, where they are asked for
    and installed.
    """

    writes = True

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        *,
        resume: bool = False,
        tensorboard: bool = True,
        wandb: str = "off",
    ) -> None:
        self.folder = folder
        if not resume:
            require_empty_run_folder(folder)
        (folder / "episodes").mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(folder)
        if not resume:
            require_empty_run_folder(folder)  # who was faster has written by now
        write_json(folder / "config.json", config)
        # a line at a time: what is written stays, whatever ends the run
        self._metrics = (folder / "metrics.jsonl").open("a", buffering=1, encoding="utf-8")
        self._timings = (folder / "timings.jsonl").open("a", buffering=1, encoding="utf-8")
        self._trackers = Trackers(folder, config, tensorboard=tensorboard, wandb=wandb)
        # apart from the updates' events, whose numbers begin again
        self._sft_trackers = Trackers(folder / "sft", config, tensorboard=tensorboard, wandb="off")
        self._sft_steps = 0

    def file_positions(self) -> dict[str, int]:
        """Return the positions in the files, up to which they are written, for a checkpoint."""
        for file in (self._metrics, self._timings):
            os.fsync(file.fileno())
        position = {"metrics": self._metrics.tell(), "timings": self._timings.tell()}
        return position | ({"sft_steps": self._sft_steps} if self._sft_steps else {})

    def rewind(self, position: Mapping[str, int], update: int = 0) -> None:
        """Rewind the files to a checkpoint's positions, so that resumed runs repeat no line.

        ValueError where less was written: the checkpoint is that of another run.
        """
        for name, file in (("metrics", self._metrics), ("timings", self._timings)):
            length = file.seek(0, os.SEEK_END)
            if length < position.get(name, 0):
                raise ValueError(
                    f"{file.name} holds {length} bytes, {position[name]} were written before it "
                    "was saved"
                )
            file.truncate(position.get(name, 0))
            file.seek(position.get(name, 0))
        self._trackers.first_update = update + 1
        self._sft_steps = position.get("sft_steps", 0)
        self._sft_trackers.first_update = self._sft_steps + 1

    def write_metrics(self, update: int, values: Mapping[str, float | None]) -> None:
        """Write an update's metrics, deterministic numbers, as one line; NaN becomes null."""
        self._metrics.write(_line({"update": update, **values}))
        self._trackers.log_scalars(update, values)

    def write_timings(self, update: int, values: Mapping[str, float | None]) -> None:
        """Write an update's timings, which depend on clock or machine, as one line."""
        self._timings.write(_line({"update": update, **values}))
        self._trackers.log_scalars(update, values)

    def write_supervised_step(
        self, step: int, values: Mapping[str, float | None], timings: Mapping[str, float | None]
    ) -> None:
        """Write the metrics and timings of a supervised step."""
        self._sft_steps = step
        for file, part in ((self._metrics, values), (self._timings, timings)):
            file.write(_line({"update": 0, "sft/step": step, **part}))
            self._sft_trackers.log_scalars(step, part)

    def write_episodes(
        self,
        name: str,
        records: Sequence[EpisodeRecord],
        spell: Spell | None = None,
        reasons: Sequence[str | None] | None = None,
    ) -> Path:
        """Write episodes as episodes/<name>.jsonl, complete enough for replay.

        `spell` decodes the prompts' ids; without it the prompts are left out. `reasons`: why
        nothing was learned from an episode, None for the others.
        """
        path = self.folder / "episodes" / f"{name}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for record, reason in zip(records, reasons or [None] * len(records), strict=True):
                dropped = {"not_learned_from": reason} if reason else {}
                file.write(_line(episode_json(record, spell) | dropped))
        return path

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._timings):
            with contextlib.suppress(OSError):  # each line was flushed, or told to have failed
                file.close()
        self._trackers.close()
        self._sft_trackers.close()
        self._lock.release(remove=True)


class NoLog(RunLog):
    """Log that discards everything, for all processes but the first."""

    writes = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_positions(self) -> dict[str, int]:
        """Return no file positions."""
        return {}

    def _write_nothing(self, *_: Any, **__: Any) -> Any:
        """Write nothing."""

    write_metrics = write_timings = write_supervised_step = write_episodes = _write_nothing
    rewind = close = _write_nothing


def episode_json(record: EpisodeRecord, spell: Spell | None = None) -> dict[str, Any]:
    """Return an episode as JSON: task, seed, truth, prompt, every message, outcome and tokens.

    `messages` are those that open the episode; a step's own are what users said behind it, its tool
    results are in `results`, and `cut` says that --max_new_tokens ended its action. `prompt` is the
    exact text before the first action, as `spell` decodes it. `played`: the ground truth's
    steps before a started episode, whose conversation is in `messages`, too.
    """
    line: dict[str, Any] = {"task_id": record.task_id, "category": record.category}
    if isinstance(record.episode, Episode):
        line |= dataclasses.asdict(record.episode)
        for step, messages in zip(line["steps"], record.messages[1:], strict=False):
            if others := [each for each in messages if each.get("role") != "tool"]:
                step["messages"] = others
        for index, step in enumerate(line["steps"]):
            step |= {"cut": True} if index in record.cut_actions else {}
        for step, role in zip(line["steps"], record.roles, strict=False):
            step["role"] = role
        for step, paid in zip(line["steps"], record.role_rewards, strict=False):
            step["rewards"] = paid
    line |= {"success": record.success, "return": record.episode_return}
    if record.strict_success is not None:
        line["strict_success"] = record.strict_success
        line["strict_error_type"] = record.strict_error_type
        forgiven = record.success and not record.strict_success
        line |= {"strict_message": record.strict_message} if forgiven else {}
    line["num_tokens"] = sum(len(row.ids) for row in record.rows)
    line["num_actions_truncated"] = record.num_actions_truncated
    line["ground_truth"] = record.ground_truth
    if record.messages:
        line["messages"] = record.messages[0]
    if spell is not None and record.rows:
        row = record.rows[0]
        line["prompt"] = spell(row.ids[: row.acted.index(True) if any(row.acted) else None])
    return line | {"tokens": tokens_json(record.rows)}


def tokens_json(rows: Sequence[TokenRecord]) -> list[dict[str, Any]]:
    """Return the tokens of rows as JSON: ids, and who wrote them as run lengths.

    Where a chat template rewrites history, a row repeats much of the one before it: `shared` ids at
    its beginning are the same, and `ids` are the others. `runs` are those of the whole row,
    `version` is that of its weights, where the row knows one.
    """
    found: list[dict[str, Any]] = []
    before: Sequence[int] = ()
    for row in rows:
        pairs = enumerate(zip(before, row.ids, strict=False))
        shared = next(
            (at for at, (old, new) in pairs if old != new), min(len(before), len(row.ids))
        )
        runs = [len(list(run)) for _, run in itertools.groupby(row.acted)]
        runs = [0, *runs] if row.acted[:1] == [True] else runs
        found.append({"shared": shared, "ids": row.ids[shared:], "runs": runs})
        found[-1] |= {} if row.version is None else {"version": row.version}
        before = row.ids
    return found


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON to a file, in one step."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(
        json_text(json_value(value), indent=2, default=repr) + "\n", encoding="utf-8"
    )
    temporary.replace(path)


def _line(values: Mapping[str, Any]) -> str:
    return json_text(json_value(values), default=repr) + "\n"


def json_value(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and infinities as None, keys as strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value
