"""Packaging: the rooms stay on top of the tree and are imported as `fctncalling.<room>`."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from setuptools import setup

ROOMS = ("data", "checkers", "envs", "algorithms")  # ground floor first

NOT_SHIPPED = {"fctncalling.lab.embedded"}  # makers of the embedded tasks and models


def subpackages(folder: str) -> list[str]:
    """Return every package below a folder, the folder itself included, as dotted names."""
    return [".".join(init.parent.parts) for init in sorted(Path(folder).rglob("__init__.py"))]


def packages() -> list[str]:
    """Return every package of the project: the top floor's own, then the rooms'.

    Where the clone has symbolic links, the rooms are seen below `fctncalling/` too; they are taken
    from the top only.
    """
    top = [
        name
        for name in subpackages("fctncalling")
        if name.split(".")[1:2] not in [[room] for room in ROOMS] and name not in NOT_SHIPPED
    ]
    return [*top, *(f"fctncalling.{name}" for room in ROOMS for name in subpackages(room))]


VERSION = "0.3.0"

HOME = os.environ.get("FCTNCALLING_HOME", "").rstrip("/")
"""Where the tree is published, https://github.com/OWNER/fctncalling say: set it to publish."""


def long_description() -> str:
    """Return the README as package pages show it, where no tree of files is beside it.

    Links and pictures within the tree become absolute ones of the version's tag at HOME. Without
    HOME pictures are left out, and links become their paths.
    """
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    if HOME:
        text = re.sub(r"(!\[[^\]]*\])\((?!https?:)", rf"\1({HOME}/raw/{VERSION}/", text)
        return re.sub(r"(?<!!)(\[[^\]!]*\])\((?!https?:|#)", rf"\1({HOME}/blob/{VERSION}/", text)
    text = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", text)
    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)", r"\1 (`\2`)", text)


LINKS = Path(".editable")


def package_folders() -> dict[str, str]:
    """Return where packages lie: `fctncalling.<room>` in the rooms.

    In an editable install behind links, whose folder goes on Python's path.

    What is found on the path comes before a folder called fctncalling without an `__init__.py`,
    such as a clone beside one's script; what setuptools maps name by name comes after it.
    """
    mapped = {f"fctncalling.{room}": room for room in ROOMS}
    if "editable_wheel" not in sys.argv or not Path("fctncalling", ROOMS[0]).is_symlink():
        return mapped  # a clone without symbolic links
    LINKS.mkdir(exist_ok=True)
    for name in ("fctncalling", "train_fctncalling.py", "evaluate_fctncalling.py"):
        with suppress(FileExistsError):
            (LINKS / name).symlink_to(Path("..", name))
    return {"": str(LINKS)}


TRAIN = [
    "torch>=2.6",
    "transformers>=5.0",
    "tokenizers>=0.22",
    "safetensors>=0.5",
    "accelerate>=1.5",
    "peft>=0.17",
    "tensorboard>=2.18",
    "matplotlib>=3.9",
    "rich>=13",
    "tqdm>=4.66",
    "pyyaml>=6",  # --config FILE
]
COMPLETION = ["shtab>=1.7"]  # fctncalling completion SHELL
AGENTIC = ["rank-bm25>=0.2.2"]  # keyword search in memories and local corpora
MEMORY_VECTOR = ["sentence-transformers"]
HTTP = ["httpx>=0.27,<1"]
# Which texts a grammar's repair saves is part of BFCL's verdicts: these releases save what its own
# do.
JAVA = ["tree-sitter>=0.26,<0.27", "tree-sitter-java>=0.23.5,<0.24"]
JAVASCRIPT = ["tree-sitter>=0.26,<0.27", "tree-sitter-javascript>=0.25,<0.26"]
TOGETHER = {  # [all]: what one environment can hold
    "agentic": AGENTIC,
    "memory-vector": MEMORY_VECTOR,
    "java": JAVA,  # the calls of BFCL's Java categories
    "javascript": JAVASCRIPT,
    "train": TRAIN,
    "completion": COMPLETION,
    "repair": ["json-repair>=0.50"],  # lenient modes of handlers whose form is JSON
    "openai": HTTP,  # fctncalling run --agent openai:...
    "math": ["sympy>=1.12"],
    "multi-agent": ["pettingzoo>=1.25"],  # fctncalling.lab.integrations.pettingzoo
    "mcp": ["mcp>=1.24,<3"],  # tools=["mcp:..."], --mcp; serve-mcp takes 2
    "api": ["pyyaml>=6"],  # OpenAPI documents in YAML
    "gguf": ["gguf>=0.10"],  # import-model, --model_name_or_path FILE.gguf
    "vllm": HTTP,  # --rollout_engine vllm; the server lives in an environment of its own
    "ray": ["ray>=2.40"],  # --num_rollout_workers
}
LOOPS = {  # of fctncalling.lab.integrations; OpenRLHF is installed by hand, without GPU libraries
    "trl": ["trl>=1.16,<2"],
    "inspect": ["inspect-ai>=0.3.285"],
    "openenv": ["openenv>=0.10,<0.11"],
    "skyrl": ["skyrl-gym>=0.4,<0.5"],
    "lm-eval": ["lm_eval>=0.4.13,<0.5"],
    "harbor": ["harbor>=0.26,<0.27; python_version >= '3.12'"],
    "verifiers": ["verifiers>=0.4,<0.5"],
    "nemo-gym": ["nemo-gym>=0.4; python_version >= '3.12'"],
    "smolagents": ["smolagents>=1.26,<2"],
}
DEV = [
    "pytest>=8",
    "pytest-xdist>=3.6",
    "httpx>=0.27,<1",
    "hypothesis>=6.100",
    "sympy>=1.12",
    "gguf>=0.10",
    *JAVA,
    *JAVASCRIPT,
    "ruff>=0.12",
    "mypy>=1.15",
    "pyright>=1.1.400",
    "setuptools>=68",
    "types-jsonschema",
    "types-pyyaml",
    "types-tqdm",
    *COMPLETION,
]

setup(
    name="fctncalling",
    version=VERSION,
    description="A Gymnasium environment for multi-turn function calling, and an actor-critic "
    "trainer for it",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    author="The fctncalling authors",
    url=HOME or None,
    project_urls={
        "Benchmark (BFCL)": "https://gorilla.cs.berkeley.edu/leaderboard.html",
        "Paper (BAD)": "https://arxiv.org/abs/2405.15821",
        **({"Changes": f"{HOME}/blob/{VERSION}/CHANGELOG.md"} if HOME else {}),
    },
    keywords="function-calling tool-use BFCL gymnasium reinforcement-learning TPPO LLM",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    license="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    python_requires=">=3.11",
    packages=packages(),
    package_dir=package_folders(),
    package_data={
        "": [
            "py.typed",
            "*.json",
            "*.toml",
            "tables/*.json",
            "tables/*.txt",
            "frames/*.toml",
        ],
        "fctncalling.data": ["embedded/**"],
        "fctncalling.lab.viewer": ["page/*"],
    },
    py_modules=["train_fctncalling", "evaluate_fctncalling"],
    entry_points={
        "console_scripts": [
            "fctncalling = fctncalling.cli.command:main",
            "train_fctncalling = train_fctncalling:main",
            "evaluate_fctncalling = evaluate_fctncalling:main",
        ]
    },
    # mpmath writes numbers into tool results, and 1.3 writes them as BFCL's records do.
    install_requires=["numpy>=2.0", "gymnasium>=1.2,<2", "jsonschema>=4.20", "mpmath>=1.3,<1.4"],
    extras_require={
        **TOGETHER,
        **LOOPS,
        "all": sorted({each for needed in TOGETHER.values() for each in needed}),
        "dev": DEV,
        "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.27"],
        "browser": ["playwright>=1.50"],  # tests of the viewer's page, with Chromium
    },
)
