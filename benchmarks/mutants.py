"""Mutation tests: whether the fast tests fail if one comparison, constant or return changes.

`python benchmarks/mutants.py --number 20 --seed 1` draws changes of all that PLACES hold and makes
each in a copy of this tree. Test files that name the changed function or module most run first,
then those of its room, then all others, until one fails. Constants are numbers, truth values and
texts of one word: the wording of messages is not promised. It exits 1 where a mutant survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PLACES = ("algorithms", "envs/episode", "envs/episode_runner.py", "checkers")
PAIRS = "Lt LtE|Gt GtE|Eq NotEq|Is IsNot|In NotIn|And Or|Add Sub|Mult Div|BitAnd BitOr"
ONE_WAY = "FloorDiv Mult|Mod Mult|Pow Mult|USub UAdd"
SWAPS = {old: new for pair in (PAIRS, ONE_WAY) for old, new in map(str.split, pair.split("|"))}
SWAPS |= {new: old for old, new in map(str.split, PAIRS.split("|"))}
OF_SOURCE = {"test_floors", "test_names"}  # tests that read how files are written
NEAREST = 6  # test files of the first run
LONGEST_S = 1800  # of one run: a mutant that goes on for ever is killed


class Mutant(NamedTuple):
    """Change of a file: the function or class around it, and the file's new text."""

    file: str
    line: int
    change: str
    around: str
    source: str


def walk(node: ast.AST, around: str = "") -> Iterator[tuple[Any, str]]:
    """Yield nodes and the names around them, without annotations and f-string texts."""
    around = getattr(node, "name", None) or around
    for field, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            text = isinstance(node, ast.JoinedStr) and isinstance(item, ast.Constant)
            if isinstance(item, ast.AST) and field not in ("annotation", "returns") and not text:
                yield item, around
                yield from walk(item, around)


def changes(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the changes of one node: (field, new value)."""
    operators = node.ops if isinstance(node, ast.Compare) else [getattr(node, "op", None)]
    for at, operator in enumerate(operators):
        if swapped := SWAPS.get(type(operator).__name__):
            new = getattr(ast, swapped)()
            many = isinstance(node, ast.Compare)
            yield ("ops", [*operators[:at], new, *operators[at + 1 :]]) if many else ("op", new)
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() | float() as value):
            yield "value", value + 1
        case ast.Constant(value=str() as value) if value.isidentifier():
            yield "value", f"{value}_"
        case ast.Return(value=value) if value and ast.unparse(value) != "None":
            yield "value", ast.Constant(None)


def draw(number: int, seed: int) -> list[Mutant]:
    """Draw mutants at random."""
    paths = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    paths += [ROOT / place for place in PLACES if place.endswith(".py")]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in paths}
    all_mutants = [
        (path, node, around, *change)
        for path, tree in trees.items()
        for node, around in walk(tree)
        for change in changes(node)
    ]
    print(f"{len(all_mutants)} changes in {len(trees)} files")
    mutants = []
    for path, node, around, field, value in random.Random(seed).sample(all_mutants, number):
        before, original = ast.unparse(node), getattr(node, field)
        setattr(node, field, value)
        change, file = f"{before}  ->  {ast.unparse(node)}", path.relative_to(ROOT).as_posix()
        mutants.append(Mutant(file, node.lineno, change, around, ast.unparse(trees[path])))
        setattr(node, field, original)
    return mutants


def runs_of(mutant: Mutant) -> list[list[str]]:
    """Return the test files of each run: nearest to the change, of its room, all others."""
    *rooms, stem = Path(mutant.file).with_suffix("").parts
    words = re.compile(rf"\b(?:{'.'.join((*rooms, stem))}|{stem}|{mutant.around or stem})\b")
    scores = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.stem in OF_SOURCE:
            continue
        score = len(words.findall(path.read_text("utf-8")))
        score += 100 * (stem in path.stem) + 50 * (rooms[-1] in path.stem)
        file = path.relative_to(ROOT).as_posix()
        scores[file] = (score, file.startswith(f"tests/{rooms[0]}/"))
    left = sorted(scores, key=lambda file: scores[file], reverse=True)
    room = [file for file in left[NEAREST:] if scores[file][1]]
    return [left[:NEAREST], room, [file for file in left[NEAREST:] if not scores[file][1]]]


class Tree:
    """Copy of this tree in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.path, self.unsound = folder / "tree", list[str]()
        apart = shutil.ignore_patterns(".git", ".venv")
        shutil.copytree(ROOT, self.path, symlinks=True, ignore=apart)

    def killer_of(self, mutant: Mutant, tests: list[str]) -> str | None:
        """Return the first test that fails only with a mutant; None if none does."""
        while True:
            (self.path / mutant.file).write_text(mutant.source, encoding="utf-8")
            killer = self.failing_test(tests)
            # Without the mutant, but written as it is: a test may read the source.
            same = ast.unparse(ast.parse((ROOT / mutant.file).read_text("utf-8")))
            (self.path / mutant.file).write_text(same, encoding="utf-8")
            if killer is None or not killer.startswith("tests/") or not self.failing_test([killer]):
                shutil.copy(ROOT / mutant.file, self.path / mutant.file)
                return killer
            print(f"{killer} fails without a mutant, too: it is left out", flush=True)
            self.unsound.append(killer)

    def failing_test(self, tests: list[str]) -> str | None:
        """Return the first failing test; None if all pass."""
        shared = os.environ.get("FCTNCALLING_SHARED", str(ROOT.parent / "shared"))
        environment = {**os.environ, "PYTHONPATH": str(self.path), "FCTNCALLING_SHARED": shared}
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-rfE", *tests]
        command += [f"--deselect={test}" for test in self.unsound]
        try:
            done = subprocess.run(
                command,
                cwd=self.path,
                env=environment,
                timeout=LONGEST_S,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return "a run without end"
        # 5: no test is left
        match = re.search(r"^(?:FAILED|ERROR) ([^\n]+?)(?: - |$)", done.stdout, re.M)
        return None if done.returncode in (0, 5) else match[1] if match else done.stdout[-300:]


def main() -> None:
    """Draw mutants and print which tests kill them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=20, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--first", type=int, default=1, help="begin at this mutant of the draw")
    parser.add_argument("--runs", type=int, default=3, help="of: nearest, room, others")
    options = parser.parse_args()
    killers = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        drawn = list(enumerate(draw(options.number, options.seed), start=1))
        for number, mutant in drawn[options.first - 1 :]:
            runs = runs_of(mutant)[: options.runs]
            killers.append(next(filter(None, (tree.killer_of(mutant, run) for run in runs)), None))
            print(f"{number}. {mutant.file}:{mutant.line} {mutant.change}")
            print(f"   {f'killed by {killers[-1]}' if killers[-1] else 'SURVIVED'}", flush=True)
    print(f"{killers.count(None)} of {len(killers)} survived")
    sys.exit(None in killers)


if __name__ == "__main__":
    main()
