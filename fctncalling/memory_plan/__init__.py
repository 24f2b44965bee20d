"""Memory plan: what a training run needs, computed from its flags before anything is loaded."""

from fctncalling.memory_plan.command import print_plan
from fctncalling.memory_plan.phases import MemoryPlan
from fctncalling.memory_plan.planning import make_plan
from fctncalling.memory_plan.policy_sizes import policy_sizes

__all__ = ["MemoryPlan", "make_plan", "policy_sizes", "print_plan"]
