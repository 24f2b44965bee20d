"""Doctor: whether a model, its template and a task file can be trained on, before they are."""

from fctncalling.lab.doctor.finding import HealthCheck, exit_code

__all__ = ["HealthCheck", "exit_code"]
