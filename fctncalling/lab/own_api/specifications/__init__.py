"""Specifications: Python classes, OpenAPI documents, MCP servers and tool schemas."""

from fctncalling.lab.own_api.specifications.load import load_api

__all__ = ["load_api"]
