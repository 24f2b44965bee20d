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
    from fctncalling.lab.dialogue import Dialogue, info_to_json, opening, score
    from fctncalling.lab.dialogue.dialogue import aplay, play
    from fctncalling.lab.text_environment.text_environment import TextEnvironment
    from fctncalling.lab.text_environment.text_history import TextHistory
    from fctncalling.training.trainer import Trainer

__version__ = "0.3.0"

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

# A public name and the module it is imported from when it is first used.
_HOME = {
    "Call": "fctncalling.data.types",
    "Dialogue": "fctncalling.lab.dialogue",
    "Episode": "fctncalling.data.types",
    "FunctionCallingEnv": "fctncalling.envs.function_calling",
    "FunctionDoc": "fctncalling.data.types",
    "StepRecord": "fctncalling.data.types",
    "Task": "fctncalling.data.types",
    "TaskError": "fctncalling.data.bfcl",
    "TextEnvironment": "fctncalling.lab.text_environment.text_environment",
    "TextHistory": "fctncalling.lab.text_environment.text_history",
    "TrainConfig": "fctncalling.algorithms.config",
    "Trainer": "fctncalling.training.trainer",
    "Verdict": "fctncalling.data.types",
    "aplay": "fctncalling.lab.dialogue.dialogue",
    "embedded_path": "fctncalling.data.bfcl",
    "info_to_json": "fctncalling.lab.dialogue",
    "iter_tasks": "fctncalling.data.bfcl",
    "judge": "fctncalling.envs.judging.judge",
    "load_tasks": "fctncalling.data.bfcl",
    "opening": "fctncalling.lab.dialogue",
    "play": "fctncalling.lab.dialogue.dialogue",
    "play_episodes": "fctncalling.evaluation.episode_log",
    "score": "fctncalling.lab.dialogue",
}

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
