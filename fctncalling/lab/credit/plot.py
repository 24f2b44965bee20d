"""Plot of a run's credit grades: values on the left, estimators on the right."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def plot_grades(grades: dict[str, Any], path: Path) -> None:
    """Write the grades as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
    names = list(grades["values"])
    for shift, key in enumerate(("explained_variance", "between", "within")):
        heights = [max(grades["values"][name][key], -1.0) for name in names]
        places = [index + 0.27 * (1 - shift) for index in range(len(names))]
        left.barh(places, heights, height=0.25, label=key.replace("_", " "))
    left.set_yticks(range(len(names)), names)
    left.axvline(0, color="black", linewidth=0.8)
    left.set_xlim(-1, 1)
    left.set_xlabel("explained variance of the true value (cut at -1)")
    left.legend(loc="upper left")
    ranked = sorted(grades["estimators"], key=lambda name: grades["estimators"][name]["sign"])
    signs = [grades["estimators"][name]["sign"] for name in ranked]
    bounds = [grades["estimators"][name]["interval"] for name in ranked]
    low = [max(0.0, sign - bound[0]) for sign, bound in zip(signs, bounds, strict=True)]
    high = [max(0.0, bound[1] - sign) for sign, bound in zip(signs, bounds, strict=True)]
    right.barh(ranked, signs, xerr=[low, high], color="tab:blue", ecolor="gray")
    right.axvline(0.5, color="black", linewidth=0.8, linestyle="dotted")
    right.set_xlim(0, 1)
    right.set_xlabel("sign right where the action matters (95 %)")
    figure.suptitle(f"Credit at {grades['checkpoint']}")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
