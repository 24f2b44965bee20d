"""`fctncalling train --plan`: print the memory plan and load nothing."""

from __future__ import annotations

import json

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.memory_plan.planning import make_plan
from fctncalling.memory_plan.remedies import remedies
from fctncalling.memory_plan.report_text import plan_text
from fctncalling.training.announce import announce


def print_plan(config: TrainConfig, form: str) -> int:
    """Print the plan as "text" or "json", in the first process; return 0 if it fits, else 1."""
    if config.roles_apart or config.team_critic == "central":
        raise SettingError(
            "--plan: --role_adapters and --team_critic are not planned; leave them out: each role "
            "adds an adapter's weights and the rollout's copy of the linear layers"
        )
    plan = make_plan(config)
    plan = plan._replace(remedies=remedies(plan, config))
    announce(json.dumps(plan.as_json(), indent=2) if form == "json" else plan_text(plan))
    return 0 if plan.fits else 1
