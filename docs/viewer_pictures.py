"""Pictures of docs/viewer.md, from two runs: `python docs/viewer_pictures.py RUN GRPO_RUN`.

Needs playwright and Chromium (extra browser). The runs:

    fctncalling train --experiment_name look --num_updates 4 --log_tokens_interval 1
    fctncalling train --experiment_name grpo --num_updates 2 --log_tokens_interval 1 \\
        --algorithm_name GRPO --group_size 8
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from fctncalling.cli.command import main as fctncalling

DOCS = Path(__file__).parent
SIZE = {"width": 1280, "height": 800}


def main() -> None:
    """Make both pages and photograph them: a token with its formula, and groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("grpo_run", type=Path)
    options = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for run, at, name in (
            (options.run, "", "viewer_episode.png"),
            (options.grpo_run, "#view=groups", "viewer_groups.png"),
        ):
            fctncalling(["view", str(run)])
            tab = browser.new_page(viewport=SIZE, color_scheme="light")
            tab.goto(f"{(run / 'view.html').resolve().as_uri()}{at}")
            tab.wait_for_selector("html[data-ready]")
            if not at:
                tab.locator(".tok.acted").nth(1).click()
            tab.screenshot(path=str(DOCS / name))
        browser.close()


if __name__ == "__main__":
    main()
