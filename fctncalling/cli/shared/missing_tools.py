"""Errors of tools that lack an extra, a corpus or long-context tables."""

from __future__ import annotations

from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.tools.bfcl.long_context import LongContextError
from fctncalling.envs.tools.local_corpus import CorpusError

MISSING = (MissingExtra, CorpusError, LongContextError)
"""What a category's tools need is not there: told once, for all its tasks would fail alike."""
