"""TensorBoard and W&B, both optional."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fctncalling.algorithms.config import SettingError

logger = logging.getLogger(__name__)

WANDB_MODES = ("off", "online", "offline")


def check_wandb(mode: str) -> None:
    """Raise SettingError where wandb is asked for and not installed."""
    if mode != "off" and importlib.util.find_spec("wandb") is None:
        raise SettingError(
            f"--wandb: got {mode}, but wandb is not installed: pip install wandb, or leave it out"
        )


class Tracker(Protocol):
    """Experiment tracker: scalars by update."""

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Show finite numbers at an update."""

    def close(self) -> None:
        """Write what waits."""


class Tensorboard:
    """Writes tensorboard events into the run's folder."""

    def __init__(self, folder: Path, first_update: int) -> None:
        """first_update: curves of an earlier go from there on are not shown."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=first_update or None)

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Show finite numbers at an update."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, update)

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()


class Wandb:
    """Sends curves to wandb, or (offline) keeps them in the run's folder for `wandb sync`."""

    def __init__(self, folder: Path, config: Mapping[str, Any], mode: str) -> None:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        # The folder is the run: a resumed one goes on in the same curves.
        number = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        name = "/".join(folder.parts[-4:])
        self._run: Any = wandb.init(
            project="fctncalling",
            name=name,
            id=number,
            resume="allow",
            mode=mode,
            dir=str(folder),
            config=dict(config),
        )
        self._run.define_metric("*", step_metric="update")

    def scalars(self, update: int, values: Mapping[str, float]) -> None:
        """Show finite numbers at an update."""
        self._run.log({"update": update, **values})

    def close(self) -> None:
        """Write what waits."""
        self._run.finish()


class Trackers:
    """All configured trackers, opened at first use and again after a rewind."""

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

    def scalars(self, update: int, values: Mapping[str, float | None]) -> None:
        """Show the numbers that exist."""
        if self._open is None:
            self._open = self._opened()
        finite = {
            name: value
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        }
        for tracker in self._open:
            tracker.scalars(update, finite)

    def close(self) -> None:
        """Close those that are open."""
        for tracker in self._open or ():
            tracker.close()

    def _opened(self) -> list[Tracker]:
        opened: list[Tracker] = []
        if self.tensorboard:
            try:
                opened.append(Tensorboard(self.folder, self.first_update))
            except ImportError:
                logger.info(
                    "tensorboard is not installed: metrics.jsonl and timings.jsonl hold every "
                    "number"
                )
        if self.wandb != "off":
            opened.append(Wandb(self.folder, self.config, self.wandb))
        return opened
