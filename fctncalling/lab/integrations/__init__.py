"""Integrations of the environment into other libraries' loops, imported on demand.

Nothing is imported here: `from fctncalling.lab.integrations import trl`, say.
"""
