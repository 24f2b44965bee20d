"""Profile of a training run: where time goes, and a torch trace."""

from fctncalling.lab.profiler.profiler import run_profiler

__all__ = ["run_profiler"]
