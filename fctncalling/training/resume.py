"""Resumption of a run (--resume): finds the checkpoint and checks the flags against it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.config_fields import format_value, settings_of
from fctncalling.algorithms.config.template_kwargs import parse_template_kwargs
from fctncalling.envs.episode_runner import STATE_HASH_VERSION
from fctncalling.training.announce import announce
from fctncalling.training.run_config import RunConfig

if TYPE_CHECKING:
    import argparse

    from fctncalling.algorithms.supervised import SupervisedLearner

# Setting -> its name in messages.
LABELS = {setting.name: setting.label for setting in settings_of(TrainConfig)}
# What saved weights and optimisers are made of: with another value of these they mean nothing.
FIXED_SETTINGS = tuple(
    "algorithm_name lora_r lora_alpha lora_targets role_adapters team_critic critic critic_head "
    "critic_hidden critic_layers critic_sees value_bins value_low value_high".split()
)
# Settings that may differ without a note.
FREE_SETTINGS = ("resume", "num_updates", "experiment_name", "results_dir", "keep_checkpoints")
# Settings whose default is another one than in 0.3: a run goes on with its own.
CHANGED_DEFAULTS = ("group_baseline", "lam", "critic_sees")


def checkpoint_to_resume(
    config: TrainConfig, folder: Path, *, is_first: bool = True
) -> Path | None:
    """Find the checkpoint that --resume asks for.

    None for the beginning, also of a run killed before it saved.

    Raises RunExistsError if a new run would overwrite one (the first process looks, before it
    writes itself), RunLockedError if another process works on it, CheckpointError if there is
    no checkpoint, SettingError if it was made with settings that do not fit.
    """
    from fctncalling.algorithms.run.checkpoint import (
        CheckpointError,
        check_digests,
        find_checkpoint,
    )
    from fctncalling.algorithms.run.logs import require_empty_run_folder
    from fctncalling.algorithms.run.run_lock import require_unlocked

    if is_first:
        require_unlocked(folder)
    if config.resume is None:
        if is_first:
            require_empty_run_folder(folder)
        return None
    try:
        checkpoint = find_checkpoint(folder / "checkpoints", config.resume)
    except CheckpointError:
        if config.resume != "auto" or not (folder / "config.json").exists():
            raise
        announce(f"The run in {folder} has saved nothing yet: starting at its beginning.")
        return None
    if is_first:
        check_digests(checkpoint)
    _compare_settings(config, checkpoint)
    announce_former_hash(config, checkpoint)
    return checkpoint


def keep_former_defaults(namespace: argparse.Namespace, given_names: Collection[str]) -> None:
    """Restore a resumed run's settings if their default has changed and no flag sets them."""
    from fctncalling.algorithms.run.logs import results_folder

    before = _settings_of_run(results_folder(cast(TrainConfig, namespace)))
    for name in set(CHANGED_DEFAULTS) & set(before) - set(given_names):
        setattr(namespace, name, before[name])


def keep_template(run_config: RunConfig, checkpoint: Path) -> RunConfig:
    """Restore the chat template and its arguments of the checkpoint's run.

    Where no other ones are given. A template is kept where the checkpoint holds that very text, as
    those since version 0.4 do.
    """
    before = run_settings(checkpoint)
    kwargs, path = before.get("chat_template_kwargs") or {}, before.get("chat_template")
    settings: dict[str, Any] = {}
    if run_config.chat_template_kwargs is None:
        settings |= {"chat_template_kwargs": json.dumps(kwargs)} if kwargs else {}
    elif (now := parse_template_kwargs(run_config.chat_template_kwargs)) != kwargs:
        announce(f"Note: going on with --chat_template_kwargs {now}, before it was {kwargs}.")
    if path and run_config.chat_template is None:
        texts = {_text(Path(path)), _text(checkpoint / "chat_template.jinja")}
        settings |= {"chat_template": path} if len(texts) == 1 and None not in texts else {}
    return dataclasses.replace(run_config, **settings)


def keep_form(run_config: RunConfig, checkpoint: Path) -> RunConfig:
    """Restore the call form of the checkpoint's run, unless a flag sets another.

    That of a run before version 0.4 is BFCL's, whatever the chat template writes.
    """
    before = str(run_settings(checkpoint).get("handler") or "auto")
    handler = run_config.handler
    return run_config if handler != "auto" else dataclasses.replace(run_config, handler=before)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def run_settings(checkpoint: Path) -> dict[str, Any]:
    """Return the config.json of a checkpoint's run; {} if the checkpoint was moved."""
    return _settings_of_run(checkpoint.resolve().parent.parent)


def unfit_checkpoint_error(checkpoint: Path, error: Exception) -> Exception:
    """Make the error of a checkpoint that does not fit the run."""
    from fctncalling.algorithms.run.checkpoint import CheckpointError

    return CheckpointError(
        f"--resume {checkpoint}: it does not fit this run ({error}). Give the flags of its "
        "own run, or start another with its weights: --experiment_name NAME "
        "--model_name_or_path FOLDER, no --resume"
    )


def _compare_settings(config: TrainConfig, checkpoint: Path) -> None:
    """Print settings that differ from the checkpoint's; SettingError if they do not fit it."""
    before = run_settings(checkpoint)
    changed = dict[str, tuple[Any, Any]]()
    for name, value in dataclasses.asdict(config).items():
        now = None if isinstance(value, float) and not math.isfinite(value) else value
        if name not in FREE_SETTINGS and name in before and before[name] != now:
            changed[name] = before[name], now
    for name in FIXED_SETTINGS:
        if name in changed:
            former, now = changed[name]
            raise SettingError(
                f"{LABELS[name]}: got {_word(now)}, but {checkpoint} was made with "
                f"{_word(former)}. Give {LABELS[name]} {_word(former)} to go on with it, or start "
                "another run (--experiment_name NAME, no --resume)"
            )
    resolved = before.get("resolved", {"step_guard": ""})
    if config.target_kl is not None and "step_guard" not in resolved:
        announce(
            f"Note: --target_kl {config.target_kl:g} ended updates behind a step too far when this "
            "run began; now half of such a step is taken back, or all."
        )
    if changed:
        listed = "; ".join(
            f"{LABELS[name]} {_word(former)} -> {_word(now)}"
            for name, (former, now) in changed.items()
        )
        announce(
            f"Note: going on with other settings than before: {listed}. --config "
            f"{checkpoint.resolve().parent.parent / 'config.json'} keeps them."
        )


def announce_former_hash(config: TrainConfig, checkpoint: Path) -> None:
    """Announce that a resumed run of 0.3 or earlier matches states by a new hash."""
    if config.group_baseline != "state":
        return
    run = run_settings(checkpoint)
    if run.get("versions", {}).get("state_hash") != STATE_HASH_VERSION:
        announce(
            'Note: info["state_hash"] tells more states apart than when this run began (limits '
            "that come near, kinds of containers): --group_baseline state goes on by the new one."
        )


def _settings_of_run(folder: Path) -> dict[str, Any]:
    """Return the settings of a checkpoint's run; {} if the checkpoint was moved."""
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else format_value(value)


def supervised_stage_is_ahead(config: TrainConfig, checkpoint: Path | None) -> bool:
    """Whether the supervised stage has not ended; a checkpoint of an update is past it."""
    past = checkpoint is not None and checkpoint.resolve().name.startswith("update_")
    return config.has_supervised_stage and not past


def restore_supervised_learner(
    learner: SupervisedLearner | None, state: Mapping[str, Any]
) -> SupervisedLearner | None:
    """Restore the learner of a checkpoint in the supervised stage; None after that stage.

    ValueError where it does not fit.
    """
    saved = state.get("supervised")
    if saved is None:
        return None
    if learner is None:
        raise ValueError("it is amid supervised fine-tuning: --sft_tasks or --sft_episodes lacks")
    learner.load_state(saved)
    return learner
