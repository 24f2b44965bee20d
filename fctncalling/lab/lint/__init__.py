"""Lint: tasks that are impossible, broken or suspicious."""
