"""Modules preloaded for snippets, because a confined child can open no file.

`datetime.strptime` imports `_strptime` when first called, `Counter.most_common` imports `heapq`,
`"é".encode("cp1252")` imports a codec. All of it is imported once, before the fork. The test of
this file reads the sources of the allowed modules and holds the table to them.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable

LATER_IMPORTS: dict[str, tuple[str, ...]] = {
    "base64": ("getopt",),
    "collections": ("copy", "heapq"),
    "datetime": ("_strptime", "locale", "calendar"),
    "functools": ("typing",),
    "numpy": (
        "numpy.linalg",
        "numpy.fft",
        "numpy.random",
        "numpy.polynomial",
        "numpy.ma",
        "numpy.char",
        "numpy.rec",
        "numpy.strings",
        "numpy.matlib",
        "numpy.ctypeslib",
        "numpy.typing",
        "mmap",
        "secrets",
    ),
    "random": (),
    "re": ("unicodedata",),
    "time": ("_strptime", "locale", "calendar"),
    "urllib": ("unicodedata",),
    "warnings": ("tracemalloc",),
}

# Needed by the language itself, whatever is allowed: codecs, \N{...} escapes, the text of warnings
# and tracebacks.
_CODECS = (
    "ascii latin_1 utf_8 utf_8_sig utf_16 utf_32 cp1252 idna hex_codec base64_codec rot_13 "
    "unicode_escape raw_unicode_escape punycode charmap iso8859_1 zlib_codec".split()
)
_MODULES = (
    "unicodedata linecache tokenize traceback warnings tracemalloc string numbers locale copy "
    "operator bisect contextlib enum types weakref hashlib struct".split()
)
ALWAYS = (*(f"encodings.{codec}" for codec in _CODECS), *_MODULES)

# Imported inside functions that no snippet has a use for: self-tests, platforms, builds, reading
# files from afar.
NEVER_NEEDED = frozenset(
    "argparse statistics doctest pytest pydoc yaml gzip importlib.abc java _tokenize "
    "encodings.mbcs _md5 _sha1 _sha2 _sha256 _sha3 numpy.core numpy.distutils "
    "numpy.distutils.cpuinfo numpy.f2py numpy.ma.mrecords numpy.testing".split()
)


def preload_modules(allowed: Iterable[str]) -> None:
    """Import the allowed modules, and all that they import later, before any fork.

    Raises for an allowed module that is missing.
    """
    for name in ALWAYS:
        _import_if_there(name)
    for name in allowed:
        importlib.import_module(name)
        later = LATER_IMPORTS.get(name)
        if later is None and name not in sys.builtin_module_names:
            later = tuple(function_level_imports(name) - NEVER_NEEDED)
        for needed in later or ():
            _import_if_there(needed)


def function_level_imports(module: str) -> set[str]:
    """Return the modules that a module's source imports inside functions."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return set()
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    modules: set[str] = set()
    for function in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(base, package) if node.level else base
                modules |= {base} | {
                    f"{base}.{alias.name}" for alias in node.names if _is_module(base, alias.name)
                }
    return modules


def _is_module(package: str, name: str) -> bool:
    try:
        return importlib.util.find_spec(f"{package}.{name}") is not None
    except (ImportError, AttributeError, ValueError):
        return False


def _import_if_there(name: str) -> None:
    # another Python version's module: what is not there cannot be asked for
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
