"""Credit ruler: estimators and critics graded against branched truth."""

from fctncalling.lab.credit.grading import grade_run
from fctncalling.lab.credit.ruler import RulerSettings, UngradableRunError, measure_truth

__all__ = ["RulerSettings", "UngradableRunError", "grade_run", "measure_truth"]
