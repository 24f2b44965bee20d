"""Shell of every page: head, stylesheet and a policy that lets it load nothing."""

from __future__ import annotations

from html import escape
from importlib.resources import files

_STYLE = files("fctncalling.lab.page") / "style.css"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"


def html_page(title: str, body: str, script: str = "") -> str:
    """Return an HTML page that loads nothing; `body` is markup, `title` text.

    Without `script` its policy lets no script run.
    """
    policy = f"{_POLICY}; script-src 'unsafe-inline'" if script else _POLICY
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
{body}
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""
