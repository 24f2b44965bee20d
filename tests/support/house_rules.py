"""Architecture rules: pure functions from a source tree to what breaks the rule in it.

A tree is a folder with the rooms and the top floor as sub-folders. Files that are reached through
the package's links to its rooms are left out: each file counts once, where it really lies.
"""

from __future__ import annotations

import ast
import os
import symtable
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

ROOMS = ("data", "checkers", "envs", "algorithms")
PACKAGE = "fctncalling"
Graph = Mapping[str, set[str]]


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder, those behind links left out."""
    return sorted(
        Path(place, name)
        for place, _, names in os.walk(folder)  # follows no link
        for name in names
        if name.endswith(".py")
    )


def package_files(root: Path) -> list[Path]:
    """Return every file of the rooms and of the top floor."""
    return [file for box in (*ROOMS, PACKAGE) for file in python_files(root / box)]


def crowded_folders(root: Path, caps: Mapping[str, int]) -> dict[str, int]:
    """Return folders with more Python files than allowed; `caps`: top folder -> files, faces apart.

    A folder's cap is that of the first part of its path.
    """
    counts: Counter[str] = Counter()
    for top in caps:
        for file in python_files(root / top):
            counts[_name(file.parent, root)] += file.name != "__init__.py"
    return {folder: count for folder, count in counts.items() if count > caps[folder.split("/")[0]]}


def repeated_classes(root: Path) -> dict[str, list[str]]:
    """Return class names that more than one class of the package bears, with their files."""
    homes = defaultdict(list)
    for file in package_files(root):
        for node in nodes_of(file):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(_name(file, root))
    return {name: files for name, files in homes.items() if len(files) > 1}


def long_files(root: Path, cap: int) -> dict[str, int]:
    """Return files with more lines than `cap`."""
    lengths = {
        _name(file, root): len(file.read_text("utf-8").splitlines()) for file in package_files(root)
    }
    return {file: length for file, length in lengths.items() if length > cap}


def long_functions(root: Path, cap: int) -> dict[str, int]:
    """Return functions with more lines than `cap`, as "file:name"."""
    long = {}
    for file in package_files(root):
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > cap:
                    long[f"{_name(file, root)}:{node.name}"] = length
    return long


def file_circles(root: Path) -> list[list[str]]:
    """Return circles of modules that import each other when they load, faces apart."""
    return _circles(module_graph(root))


def box_circles(root: Path) -> dict[str, list[list[str]]]:
    """Return, for each folder, circles among its boxes: its files and its sub-folders.

    The rooms themselves are no boxes of the package's folder: the floors have a rule of their own.
    """
    graph, found = module_graph(root), {}
    for folder in {
        module.rsplit(".", depth)[0]
        for module in graph
        for depth in range(1, module.count(".") + 1)
    }:
        boxes: dict[str, set[str]] = defaultdict(set)
        for module, imported in graph.items():
            box = _box(module, folder)
            if box:
                others = {_box(other, folder) for other in imported}
                boxes[box] |= {other for other in others if other and other != box}
        if circles := _circles(boxes):
            found[folder] = circles
    return found


def module_graph(root: Path) -> Graph:
    """Return module -> modules of the package that it imports; faces import nothing here.

    Imports inside functions and for type checkers count: a circle that they hide is a circle.
    """
    modules = {module_name(file, root): file for file in package_files(root)}
    return {
        module: {name for name in _imported(file, modules) if name in modules} - {module}
        for module, file in modules.items()
        if file.name != "__init__.py"
    }


def unknown_imports(root: Path, folders: Sequence[str]) -> list[str]:
    """Return the imports in scripts of what neither the package nor another script defines."""
    modules = {module_name(file, root): file for file in package_files(root)}
    scripts = [file for folder in folders for file in python_files(root / folder)]
    modules |= {file.stem: file for file in scripts}
    modules |= {f"{file.parent.name}.{file.stem}": file for file in scripts}
    return [
        f"{_name(file, root)}:{node.lineno}: {name}"
        for file in scripts
        for node in nodes_of(file)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _missing(node, modules)
    ]


def _missing(node: ast.Import | ast.ImportFrom, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield what an import names that the modules lack; other libraries' are left out."""
    whole = isinstance(node, ast.Import)
    for alias in node.names:
        module, name = (alias.name, "") if whole else (node.module or "", alias.name)
        if module in modules:
            known = not name or f"{module}.{name}" in modules or name in globals_of(modules[module])
        else:
            known = module.split(".")[0] != PACKAGE
        if not known:
            yield f"{module}.{name}".rstrip(".")


@lru_cache(maxsize=1024)
def globals_of(file: Path) -> set[str]:
    """Return the names that a module assigns, defines or imports, in branches too."""
    table = symtable.symtable(file.read_text("utf-8"), str(file), "exec")
    return {
        each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()
    }


def module_name(file: Path, root: Path) -> str:
    """Return the name a file of the tree is imported by."""
    parts = file.relative_to(root).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == PACKAGE else (PACKAGE, *parts))


@lru_cache(maxsize=1024)
def tree_of(file: Path) -> ast.Module:
    """Return a file's syntax tree, parsed once."""
    return ast.parse(file.read_text("utf-8"))


@lru_cache(maxsize=1024)
def nodes_of(file: Path) -> list[ast.AST]:
    """Return the module, statements and calls of a file, collected once."""
    kinds = (ast.Module, ast.stmt, ast.Call)
    return [node for node in ast.walk(tree_of(file)) if isinstance(node, kinds)]


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _imported(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield what a module imports, wherever the statement stands."""
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module


def _box(module: str, folder: str) -> str | None:
    if not module.startswith(f"{folder}."):
        return None
    box = module[len(folder) + 1 :].split(".")[0]
    return None if folder == PACKAGE and box in ROOMS else box


def _circles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other (more than one node each), sorted."""
    reach = {node: _reached(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in reach[node] if node in reach.get(other, ())))
        for node in graph
        if node in reach[node]
    }
    return [list(group) for group in sorted(groups)]


def _reached(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    left = list(graph.get(start, ()))
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            left += graph.get(node, ())
    return seen
