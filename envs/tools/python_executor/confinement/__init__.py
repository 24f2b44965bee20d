"""Kernel layers around a call: resource limits, Landlock, seccomp."""

from fctncalling.envs.tools.python_executor.confinement.kernel_calls import ConfinementError, prctl
from fctncalling.envs.tools.python_executor.confinement.layers import LAYERS, Confinement

__all__ = ["LAYERS", "Confinement", "ConfinementError", "prctl"]
