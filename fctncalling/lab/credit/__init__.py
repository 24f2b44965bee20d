"""Credit ruler: estimators and critics graded against branched truth."""

from fctncalling.lab.credit.grading import grade_run
from fctncalling.lab.credit.ruler import CreditError, RulerSettings, measure_truth

__all__ = ["CreditError", "RulerSettings", "grade_run", "measure_truth"]
