"""Handlers of Java and JavaScript calls."""
