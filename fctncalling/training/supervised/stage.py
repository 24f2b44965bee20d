"""Place of a run in its supervised stage: ahead, amid or past."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.supervised import SupervisedLearner


def stage_is_ahead(config: TrainConfig, checkpoint: Path | None) -> bool:
    """Return whether a run still learns demonstrations: checkpoints of updates are past that."""
    past = checkpoint is not None and checkpoint.resolve().name.startswith("update_")
    return config.has_supervised_stage and not past


def restored_learner(
    learner: SupervisedLearner | None, state: Mapping[str, Any]
) -> SupervisedLearner | None:
    """Return the learner at the step of a checkpoint's state, None where that is past the stage.

    ValueError where it does not fit.
    """
    saved = state.get("supervised")
    if saved is None:
        return None
    if learner is None:
        raise ValueError("it is amid supervised fine-tuning: --sft_tasks or --sft_episodes lacks")
    learner.load_state(saved)
    return learner
