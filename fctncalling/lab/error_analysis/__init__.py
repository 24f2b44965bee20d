"""Error analysis of recorded answers: why one fails, and which answer near it would have passed."""

from fctncalling.lab.error_analysis.diagnose import diagnose
from fctncalling.lab.error_analysis.diagnosis import CURES, CategoryReport, Diagnosis

__all__ = ["CURES", "CategoryReport", "Diagnosis", "diagnose"]
