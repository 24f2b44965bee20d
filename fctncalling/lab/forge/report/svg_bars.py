"""Bars of two histograms side by side, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

FORGED_COLOR, OFFICIAL_COLOR = "#d9822b", "#3465a4"
_LEFT, _BAR, _WIDTH, _LABEL = 150, 11, 460, 12


def bars(
    title: str, forged: Mapping[str, float], official: Mapping[str, float] | None, unit: str = "%"
) -> str:
    """Return a figure with two bars for each key, in the order of the keys of both.

    Shares are in 0..1 where the unit is %, else values as they are.
    """
    keys: list[str] = [*(official or {}), *(key for key in forged if key not in (official or {}))]
    scale = 100.0 if unit == "%" else 1.0
    most = max([*forged.values(), *(official or {}).values(), 1e-9])
    rows, y = [], 26
    for key in keys:
        rows.append(_label(key, y + _BAR))
        for side, color in ((official, OFFICIAL_COLOR), (forged, FORGED_COLOR)):
            if side is not None:
                rows.append(_bar(side.get(key, 0.0), most, scale, unit, color, y))
                y += _BAR + 1
        y += 5
    return (
        f'<svg viewBox="0 0 680 {y + 6}" width="680" height="{y + 6}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="sans-serif" font-size="{_LABEL}">'
        f'<text x="0" y="14" font-weight="bold">{escape(title)}</text>{"".join(rows)}</svg>'
    )


def _label(key: str, y: int) -> str:
    return f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end">{escape(key[:24])}</text>'


def _bar(value: float, most: float, scale: float, unit: str, color: str, y: int) -> str:
    width = max(0.5, _WIDTH * value / most)
    shown = f"{value * scale:.1f}{unit}" if unit else f"{value:.2f}"
    return (
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{color}"/>'
        f'<text x="{_LEFT + width + 5:.1f}" y="{y + _BAR - 1}" font-size="10">{shown}</text>'
    )
