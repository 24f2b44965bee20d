"""Data-parallel processes and sharded weights."""

from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS, ProcessGroup

__all__ = ["SINGLE_PROCESS", "ProcessGroup"]
