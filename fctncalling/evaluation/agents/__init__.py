"""Agents that play benchmark tasks: scripted policies, models behind an HTTP interface, models in a
folder.
"""
