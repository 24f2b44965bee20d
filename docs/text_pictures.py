"""The pictures of docs/tools.md: one episode of the calculator job as text, as tokens and as a
page.

`python docs/text_pictures.py --output docs` writes SVG files by rich and an HTML page, and
PNG files of them where weasyprint and pymupdf are installed (`pip install weasyprint pymupdf`).
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from fctncalling import TextEnvironment, embedded_path
from fctncalling.envs.tools.box.calculator import calculate

QUESTION = "<|user|>What is 36 * 44?<|end|><|assistant|>"


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=str(embedded_path("calculator")))
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs"))
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model)
    torch.manual_seed(options.seed)
    env = TextEnvironment(
        model,
        tokenizer,
        {"calculator": calculate},
        lambda responses, answers: [
            float(f"={answer}<" in said) for said, answer in zip(responses, answers, strict=True)
        ],
        generation_kwargs={"max_new_tokens": 32},
    )
    [history] = env.run([QUESTION], answers=["1584.0"])[-1]
    env.close()
    options.output.mkdir(parents=True, exist_ok=True)
    text, tokens, html = (
        options.output / name for name in ("episode_text.svg", "episode_tokens.svg", "episode.html")
    )
    svg(text, lambda console: history.show_text(True, console=console))
    svg(tokens, lambda console: history.show_tokens(tokenizer, True, console=console))
    html.write_text(history.to_html(tokenizer), encoding="utf-8")
    if find_spec("weasyprint") and find_spec("pymupdf"):
        for path in (text, tokens, html):
            photograph(path)


def svg(path: Path, show: Callable[[Console], None]) -> None:
    """Write the output of a console as SVG."""
    console = Console(record=True, width=100, file=io.StringIO())
    show(console)
    console.save_svg(str(path), title=path.stem.replace("_", " "))


def photograph(path: Path) -> None:
    """Write a PNG next to a page or image file, cropped to its content."""
    import pymupdf
    from PIL import Image, ImageChops
    from weasyprint import CSS, HTML

    html = (
        path.read_text(encoding="utf-8")
        if path.suffix == ".html"
        else f'<img src="{path.name}" width="860">'
    )
    sheet = CSS(string="@page { size: 900px 900px; margin: 8px }")
    document = HTML(string=html, base_url=str(path.parent.resolve())).write_pdf(stylesheets=[sheet])
    pixels = pymupdf.open("pdf", document)[0].get_pixmap(dpi=144)
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
    image.crop(ImageChops.invert(image).getbbox()).save(path.with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main()
