"""Kinds of values: how the values of each parameter are drawn and accepted."""

from fctncalling.lab.own_api.kinds.argument_kind import ArgumentKind
from fctncalling.lab.own_api.kinds.find import argument_kinds
from fctncalling.lab.own_api.kinds.scalar_kind import MISSING

__all__ = ["MISSING", "ArgumentKind", "argument_kinds"]
