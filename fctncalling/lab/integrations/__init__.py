"""The environment in other libraries' loops: one file each, which imports its library when used.

Nothing is imported here: `from fctncalling.lab.integrations import trl`, say.
"""
