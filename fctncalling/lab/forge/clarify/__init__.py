"""Questioning tasks: requests that leave a value open, and twins of them that do not."""

from fctncalling.lab.forge.clarify.clarify_entries import clarify_entry

__all__ = ["clarify_entry"]
