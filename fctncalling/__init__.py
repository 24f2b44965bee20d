"""fctncalling: a Gymnasium environment and an actor-critic trainer for function calling.

Importing it registers the Gymnasium ids of `registration.py`; the public names below are
imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fctncalling.moved import keep_former_paths
from fctncalling.registration import register_environments

if TYPE_CHECKING:
    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.data.bfcl import TaskError, embedded_path, iter_tasks, load_tasks
    from fctncalling.data.types import Call, Episode, FunctionDoc, StepRecord, Task, Verdict
    from fctncalling.envs.function_calling import FunctionCallingEnv
    from fctncalling.envs.judging.judge import judge
    from fctncalling.evaluation.episode_log import play_episodes
    from fctncalling.lab.dialogue import Dialogue, aplay, info_to_json, opening, play, score
    from fctncalling.lab.text_environment.text_environment import TextEnvironment
    from fctncalling.lab.text_environment.text_history import TextHistory
    from fctncalling.training.trainer import Trainer

__version__ = "0.4.0"

__all__ = [
    "Call",
    "Dialogue",
    "Episode",
    "FunctionCallingEnv",
    "FunctionDoc",
    "StepRecord",
    "Task",
    "TaskError",
    "TextEnvironment",
    "TextHistory",
    "TrainConfig",
    "Trainer",
    "Verdict",
    "__version__",
    "aplay",
    "embedded_path",
    "info_to_json",
    "iter_tasks",
    "judge",
    "load_tasks",
    "opening",
    "play",
    "play_episodes",
    "score",
]

# Public names by the module that each is imported from when it is first used.
_NAMES = {
    "fctncalling.algorithms.config": "TrainConfig",
    "fctncalling.data.bfcl": "TaskError embedded_path iter_tasks load_tasks",
    "fctncalling.data.types": "Call Episode FunctionDoc StepRecord Task Verdict",
    "fctncalling.envs.function_calling": "FunctionCallingEnv",
    "fctncalling.envs.judging.judge": "judge",
    "fctncalling.evaluation.episode_log": "play_episodes",
    "fctncalling.lab.dialogue": "Dialogue aplay info_to_json opening play score",
    "fctncalling.lab.text_environment.text_environment": "TextEnvironment",
    "fctncalling.lab.text_environment.text_history": "TextHistory",
    "fctncalling.training.trainer": "Trainer",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

register_environments()
keep_former_paths()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        known = ", ".join(__all__)
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: its public names are {known}"
        )
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
