"""Report of a forged file: fidelity to the official tasks, diversity, what gives it away."""

from fctncalling.lab.forge.report.report_page import write_report

__all__ = ["write_report"]
