"""Memory that a training run needs, computed from its flags before anything is loaded."""

from fctncalling.lab.memory_plan.planning import MemoryPlan, make_plan
from fctncalling.lab.memory_plan.policy_sizes import policy_sizes
from fctncalling.lab.memory_plan.printed_plan import print_plan

__all__ = ["MemoryPlan", "make_plan", "policy_sizes", "print_plan"]
