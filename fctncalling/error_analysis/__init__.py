"""Error analysis of recorded answers: why one fails, and which answer near it would have passed."""

from fctncalling.error_analysis.category_report import CategoryReport
from fctncalling.error_analysis.diagnose import diagnose
from fctncalling.error_analysis.diagnosis import CURES, Diagnosis

__all__ = ["CURES", "CategoryReport", "Diagnosis", "diagnose"]
