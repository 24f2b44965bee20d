"""Profile of a training run: where time goes, and a torch trace."""

from fctncalling.lab.profiler.profiler import profiling

__all__ = ["profiling"]
