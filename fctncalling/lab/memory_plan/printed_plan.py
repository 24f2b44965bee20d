"""`fctncalling train --plan`: print the memory plan and load nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fctncalling.algorithms.config import TrainConfig
from fctncalling.lab.memory_plan.planning import make_plan
from fctncalling.lab.memory_plan.remedies import remedies
from fctncalling.lab.memory_plan.report_text import plan_text
from fctncalling.training.announce import announce


def print_plan(config: TrainConfig, form: str, roles: Sequence[str] = ()) -> int:
    """Print the plan as "text" or "json", in the first process; return 0 if it fits, else 1.

    roles: of a team, where `roles_of_run` names them.
    """
    plan = make_plan(config, roles)
    plan = plan._replace(remedies=remedies(plan, config, roles))
    announce(json.dumps(plan.as_json(), indent=2) if form == "json" else plan_text(plan))
    return 0 if plan.fits else 1
