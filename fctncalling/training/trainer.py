"""Training from Python: `Trainer(config, env=..., model=...).run()`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fctncalling.algorithms.config import SettingError, TrainConfig

if TYPE_CHECKING:
    from fctncalling.training.run_config import RunConfig
    from fctncalling.training.task_setup import TaskSetup


class TrainingResult(NamedTuple):
    """Result of a training run; success rates are in 0..1, as in evaluation.json."""

    # Held-out tasks before the first update, behind a supervised stage: "stage", "greedy", ...
    before: dict[str, Any]
    after: dict[str, Any]
    updates: int
    episodes: int
    folder: Path  # metrics.jsonl, evaluation.json, episodes/
    checkpoint: Path  # the last one: an ordinary transformers folder with a value head
    base: dict[str, Any]  # held-out tasks before a supervised stage; without one as `before`


class Trainer:
    """Trainer of a language model on an environment: `fctncalling train` as an object.

    - `config`: the settings, `TrainConfig(num_updates=40, lr=1e-5)`; each has the command's name
      and default.
    - `env`: a function that makes a `gymnasium.Env` of texts (it is called once for each episode
      that runs side by side), or a name as --env_name takes it. None: what the config names, by
      default the embedded tasks.
    - `model`: a folder or hub name, or (model, tokenizer) of transformers, which is written below
      results_dir first, so that a resumed run and a reference find it. None: what the config names.
    - `task_ids`, `held_out_ids`: `options["task_id"]` of `reset` for training and evaluation, with
      a function as `env`; by default train_0, train_1, ... and held_out_0, ...: the seed of `reset`
      decides what they are. `task_ids` alone: the evaluation plays the training tasks, and says so.
    - `run_config`: what learning does not see (handlers, tools, trackers), as `RunConfig` of the
      command line.
    """

    def __init__(
        self,
        config: TrainConfig | None = None,
        *,
        env: str | Callable[[], Any] | None = None,
        model: str | Path | tuple[Any, Any] | None = None,
        task_ids: Sequence[str] | None = None,
        held_out_ids: Sequence[str] | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        from fctncalling.training.run_config import RunConfig

        self.run_config = RunConfig() if run_config is None else run_config
        config = TrainConfig() if config is None else config
        self._task_setup: TaskSetup | None = None
        if isinstance(env, str):
            config = dataclasses.replace(config, env_name=env)
        elif env is not None:
            name = str(getattr(env, "__name__", type(env).__name__))  # in the results folder
            is_name = name.isidentifier() and name != "fctncalling_env"
            config = dataclasses.replace(config, env_name=name if is_name else "environment")
            self._task_setup = _task_setup(env, config, task_ids, held_out_ids)
        if self._task_setup is None and (task_ids is not None or held_out_ids is not None):
            raise SettingError(
                "task_ids, held_out_ids: they go with a function as env; a name has its own"
            )
        if self._task_setup is not None and self.run_config.num_rollout_workers:
            raise SettingError(
                "num_rollout_workers: workers make their environments by name; register yours and "
                "give env its id"
            )
        self._model = model if isinstance(model, tuple) else None
        if self._model is not None:
            model = Path(config.results_dir, config.experiment_name, "start", "given_model")
        if model is not None:
            config = dataclasses.replace(config, model_name_or_path=str(model))
        self.config = config

    def run(self) -> TrainingResult:
        """Train, and evaluate before and after; return the result.

        Errors are raised as they are: SettingError, TaskError, ModelError, RunExistsError,
        FloatingPointError. Ctrl-C saves a checkpoint first; with `TrainConfig(resume="auto")` the
        next run goes on from it.
        """
        from fctncalling.progress_bar import Progress
        from fctncalling.training.prepare_run import prepare_run
        from fctncalling.training.run_loop import run_loop, write_run_report

        if self._model is not None:
            if os.environ.get("WORLD_SIZE", "1") != "1":
                raise SettingError(
                    "model: of several processes each would write it; save it and give the "
                    "folder's name"
                )
            for part in self._model:
                part.save_pretrained(Path(str(self.config.model_name_or_path)))
        run = prepare_run(self.config, self.run_config, self._task_setup)
        progress = Progress(
            self.config.num_updates, run.counters.updates, shown=run.processes.is_first
        )
        with run.interruption:
            try:
                run_loop(run, progress)
                write_run_report(run, self.run_config)
            except KeyboardInterrupt:
                run.save()
                raise
            finally:
                progress.close()
                run.close()
        counters, folder = run.counters, run.log.folder
        evaluations = counters.evaluations()
        checkpoint = folder / "checkpoints" / "last"
        return TrainingResult(
            before=evaluations["before"],
            after=evaluations["after"],
            updates=counters.updates,
            episodes=counters.episodes,
            folder=folder,
            checkpoint=checkpoint,
            base=evaluations.get("base", evaluations["before"]),
        )


def _task_setup(
    make_env: Callable[[], Any],
    config: TrainConfig,
    training: Sequence[str] | None,
    held_out: Sequence[str] | None,
) -> TaskSetup:
    """Return a user's environments with tasks for training and evaluation.

    At most --eval_episodes of the latter.
    """
    from fctncalling.algorithms.rollout.task_sampler import CandidateTask
    from fctncalling.training.announce import announce
    from fctncalling.training.task_setup import TaskSetup

    if training is not None and held_out is None:
        announce("Note: task_ids without held_out_ids: the evaluation plays the training tasks.")
    if training is None:
        training = [f"train_{number}" for number in range(config.episodes_per_update)]
        default = [f"held_out_{number}" for number in range(config.eval_episodes)]
        held_out = default if held_out is None else held_out
    chosen = list(training if held_out is None else held_out)[: config.eval_episodes]
    if not training or not chosen:
        raise SettingError("task_ids, held_out_ids: got an empty list, expected at least one id")
    return TaskSetup(make_env, [CandidateTask(task_id) for task_id in training], chosen)
