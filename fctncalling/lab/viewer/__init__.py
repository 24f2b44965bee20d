"""Offline page of a run: tokens, credit, environment, groups.

Face: `load_run`, `page_data`, `compared_runs`, `write_page`.
"""

from fctncalling.lab.viewer.compared_runs import compared_runs
from fctncalling.lab.viewer.page_data import page_data
from fctncalling.lab.viewer.page_file import write_page
from fctncalling.lab.viewer.run_files import ViewError, load_run

__all__ = ["ViewError", "compared_runs", "load_run", "page_data", "write_page"]
