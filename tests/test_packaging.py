"""The package imports lightly, ships what it needs, and installs from a clone that has no symbolic
links.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from importlib.metadata import PackageNotFoundError
from importlib.metadata import metadata as metadata_of
from pathlib import Path

import gymnasium
import pytest

import fctncalling
from fctncalling.registration import ENTRY_POINTS

ROOT = Path(__file__).parents[1]
ROOMS = ("data", "checkers", "envs", "algorithms")
DATA_FILES = (
    "py.typed",
    "lab/import_bfcl.json",
    "cli/score/leaderboard_columns.json",
    "data/task.schema.json",
    "envs/prompting/format_variants.json",
    "envs/tools/bfcl/tables/travel_booking.json",
)  # that some module reads, one of each kind


def run(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    """Return what a fresh interpreter prints, with `path` before everything installed."""
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_adds_to_gymnasium_only_the_package_itself_and_replaces_nothing(
    tmp_path: Path,
) -> None:
    added = run(
        "-c",
        "import sys, gymnasium, typing, importlib\n"
        "before, finders, printed = set(sys.modules), list(sys.meta_path), sys.stdout\n"
        "import fctncalling; print(*sorted(set(sys.modules) - before))\n"
        "ours, *others = sys.meta_path\n"
        "assert others == finders and type(ours).__name__ == 'MovedModuleFinder'\n"
        "assert ours.find_spec('json', None) is None and sys.stdout is printed",
        cwd=tmp_path,
    ).split()
    assert added == ["fctncalling", "fctncalling.moved", "fctncalling.registration"]


def test_the_environment_is_registered_in_whichever_order_the_two_are_imported(
    tmp_path: Path,
) -> None:
    tasks = str(fctncalling.embedded_path("held_out"))
    made = (
        f"env = gymnasium.make('FunctionCalling-v0', dataset_path={tasks!r})\n"
        "print(type(env.unwrapped).__name__)"
    )
    orders = (
        "import gymnasium, fctncalling",
        "import fctncalling, gymnasium",
        "import fctncalling.cli.score.command, gymnasium",
    )
    for imports in orders:
        assert run("-c", f"{imports}\n{made}", cwd=tmp_path).strip() == "FunctionCallingEnv"


def test_tasks_and_scores_load_neither_torch_nor_the_schema_validator(tmp_path: Path) -> None:
    run(
        "-c",
        "import sys, fctncalling; fctncalling.load_tasks, fctncalling.Task\n"
        "import fctncalling.cli.score.command, fctncalling.cli.verdicts\n"
        "assert not {'jsonschema', 'torch', 'transformers'} & set(sys.modules)",
        cwd=tmp_path,
    )


def test_the_environments_are_registered_by_import() -> None:
    for env_id, entry_point in ENTRY_POINTS.items():
        assert gymnasium.spec(env_id).entry_point == entry_point
        module, _, name = entry_point.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
    assert sorted(ENTRY_POINTS) == [
        "FunctionCalling-v0",
        "fctncalling/Calculator-v0",
        "fctncalling/PythonMath-v0",
        "fctncalling/Team-v0",
        "fctncalling/ToolText-v0",
    ]


def test_every_public_name_loads_on_first_use_and_is_listed() -> None:
    for name in fctncalling.__all__:
        assert getattr(fctncalling, name) is not None
    assert set(fctncalling.__all__) <= set(dir(fctncalling))
    with pytest.raises(
        AttributeError, match=r"no attribute 'load_task': its public names are .*load_tasks"
    ):
        fctncalling.load_task  # noqa: B018  # pyright: ignore


def test_type_checkers_and_the_interpreter_see_the_same_public_names() -> None:
    tree = ast.parse((ROOT / "fctncalling" / "__init__.py").read_text())
    [guarded] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    seen = {
        alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == fctncalling._HOME
    assert sorted([*seen, "__version__"]) == sorted(fctncalling.__all__)


def test_the_versions_agree() -> None:
    version = fctncalling.__version__
    assert f'VERSION = "{version}"' in (ROOT / "setup.py").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    package = ROOT / "examples/openenv_package"
    assert f"\nversion: {version}\n" in (package / "openenv.yaml").read_text()
    assert f'\nversion = "{version}"\n' in (package / "pyproject.toml").read_text()
    assert (ROOT / "CHANGELOG.md").read_text().split("\n## ")[2].startswith(f"{version}\n")


@pytest.fixture(scope="module")
def without_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree in which each link is a text file, as git writes it where links are
    not supported.
    """
    clone = tmp_path_factory.mktemp("clone")
    for folder in (*ROOMS, "fctncalling"):
        large = ("model", "bfcl") if folder == "data" else ()
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", *large)
        shutil.copytree(ROOT / folder, clone / folder, symlinks=True, ignore=skipped)
    for room in ROOMS:
        link = clone / "fctncalling" / room
        target = os.readlink(link) if link.is_symlink() else f"../{room}"
        link.unlink(missing_ok=True)
        link.write_text(target)
    for file in (
        "setup.py",
        "pyproject.toml",
        "LICENSE",
        "NOTICE",
        *(path.name for path in ROOT.glob("*_fctncalling.py")),
    ):
        shutil.copy(ROOT / file, clone / file)
    return clone


def test_a_clone_without_links_builds_a_complete_package(
    without_links: Path, tmp_path: Path
) -> None:
    run("setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib"), cwd=without_links)
    shipped = {
        str(path.relative_to(tmp_path / "lib"))
        for path in (tmp_path / "lib").rglob("*")
        if path.is_file()
    }
    expected = {
        f"fctncalling/{path.relative_to(without_links)}"
        for room in ROOMS
        for path in (without_links / room).rglob("*")
        if path.suffix in (".py", ".json")
    }
    expected |= {
        str(path.relative_to(without_links))
        for path in (without_links / "fctncalling").rglob("*")
        if path.suffix in (".py", ".json") and path.parent.name != "embedded"
    }
    assert expected <= shipped
    assert not any("lab/embedded" in file for file in shipped), "makers stay in the clone"
    assert {f"fctncalling/{name}" for name in DATA_FILES} <= shipped


def test_the_built_package_loads_its_embedded_tasks(without_links: Path, tmp_path: Path) -> None:
    run("setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib"), cwd=without_links)
    program = (
        "import fctncalling, json; tasks = "
        "fctncalling.load_tasks(fctncalling.embedded_path('train'))\n"
        "print(json.dumps([fctncalling.__file__, len(tasks)]))"
    )
    file, num_tasks = json.loads(run("-c", program, cwd=tmp_path, path=tmp_path / "lib"))
    assert Path(file).is_relative_to(tmp_path)
    assert num_tasks == len(fctncalling.load_tasks(fctncalling.embedded_path("train")))


def test_an_editable_install_comes_before_a_folder_of_its_name(tmp_path: Path) -> None:
    """A clone called fctncalling beside one's script is a namespace package to Python, which would
    hide what setuptools maps name by name.
    """
    clone = tmp_path / "fctncalling"
    for folder in (*ROOMS, "fctncalling"):
        (clone / folder).mkdir(parents=True)
        (clone / folder / "__init__.py").touch()
    for room in ROOMS:
        (clone / "fctncalling" / room).symlink_to(Path("..", room))
    for file in ("setup.py", "pyproject.toml", "LICENSE", "NOTICE", "train_fctncalling.py"):
        shutil.copy(ROOT / file, clone / file)
    (clone / "evaluate_fctncalling.py").touch()
    run("setup.py", "-q", "editable_wheel", "--dist-dir", str(tmp_path), cwd=clone)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".pth")]
        path = Path(archive.read(name).decode().strip())
    assert path.is_absolute()
    program = "import fctncalling.data as data, evaluate_fctncalling; print(data.__file__)"
    file = Path(run("-c", program, cwd=tmp_path, path=path).strip())
    assert file.resolve() == (clone / "data" / "__init__.py").resolve()
    assert sorted(each.name for each in path.iterdir() if each.name != "__pycache__") == [
        "evaluate_fctncalling.py",
        "fctncalling",
        "train_fctncalling.py",
    ], "no room goes on the path"


def requirements() -> list[str]:
    """Return the requirements of the package and of all its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [each for needed in (project["dependencies"], *extras) for each in needed]


def requirement(line: str) -> tuple[str, str]:
    """Return (name, least or pinned version) of one requirement."""
    name, _, rest = re.sub(r"\s", "", line).partition("=" if "==" in line else ">")
    return name.lower(), rest.lstrip("=>").split(",")[0]


def test_pinned_versions_cover_and_satisfy_the_ranges() -> None:
    lines = [
        line
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if line and line[0] != "#"
    ]
    assert lines[0] == "torch==2.13.0"
    assert all("==" in line for line in lines)
    pins = dict(requirement(line) for line in lines)
    for text in filter(re.compile(r"[a-z][\w-]*>=").match, requirements()):
        name, least = requirement(text)
        if name not in (
            "setuptools",
            "python",
            "mcp",
            "ray",
            "playwright",
            "pettingzoo",
            "mkdocs",
            "mkdocs-material",
            *("trl", "inspect-ai", "openenv", "verifiers", "nemo-gym", "smolagents"),
            *("skyrl-gym", "lm_eval", "harbor"),
        ):  # extras no fast test needs
            assert numbers(pins[name]) >= numbers(least), text


def numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """Return the package's metadata, as its distributions have it."""
    folder = tmp_path_factory.mktemp("info")
    run("setup.py", "-q", "egg_info", "--egg-base", str(folder), cwd=ROOT)
    [file] = folder.glob("*/PKG-INFO")
    return message_from_string(file.read_text())


def test_the_metadata_says_who_what_and_how_and_shows_nothing_that_is_not_there(
    metadata: Message,
) -> None:
    assert metadata["Author"] == "The fctncalling authors"
    assert metadata["Keywords"]
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    text = metadata.get_payload()
    assert "## Two commands" in str(text)
    assert re.findall(r"!\[|\]\((?!https?:|#)", str(text)) == []


def test_a_home_makes_pictures_and_links_of_the_long_description_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FCTNCALLING_HOME", "https://example.org/fctncalling/")
    run("setup.py", "-q", "egg_info", "--egg-base", str(tmp_path), cwd=ROOT)
    [file] = tmp_path.glob("*/PKG-INFO")
    found = message_from_string(file.read_text())
    text, home = str(found.get_payload()), "https://example.org/fctncalling"
    tag = f"{home}/raw/{fctncalling.__version__}"
    shown = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    own = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text())
    assert shown == [f"{tag}/{path}" for path in own] != []
    assert re.findall(r"\]\((?!https?:|#)", text) == []
    assert f"({home}/blob/{fctncalling.__version__}/docs/train.md)" in text
    assert any(line.startswith("Changes, ") for line in found.get_all("Project-URL", []))


PERMISSIVE = (
    "MIT",
    "BSD",
    "Apache",
    "ISC",
    "PSF",
    "Python Software Foundation",
    "MPL",
    "Unlicense",
)


def test_what_is_installed_with_the_package_has_licences_that_let_it_be_used() -> None:
    """Of the distributions that the core and [train] bring, as far as they are installed here."""
    seen: set[str] = set()
    waiting = [re.match(r"[\w-]+", each)[0] for each in requirements()]  # type: ignore[index]
    faults = []
    while waiting:
        name = waiting.pop()
        if name.lower() in seen or name in ("nvidia", "setuptools", "fctncalling"):
            continue
        seen.add(name.lower())
        try:
            found = metadata_of(name)
        except PackageNotFoundError:
            continue
        classified = [each for each in found.get_all("Classifier", []) if "License" in each]
        told = [found["License-Expression"] or "", (found["License"] or "")[:200], *classified]
        if not any(word in text for word in PERMISSIVE for text in told):
            faults.append((name, told))
        lines = [line for line in found.get_all("Requires-Dist", []) if "extra ==" not in line]
        waiting += [re.match(r"[\w.-]+", line)[0] for line in lines]  # type: ignore[index]
    assert {"numpy", "gymnasium", "jsonschema", "mpmath"} <= seen
    assert faults == []


def test_every_extra_of_one_environment_is_in_all(metadata: Message) -> None:
    apart = {"all", "dev", "docs", "browser"}
    loops = {"trl", "inspect", "openenv", "verifiers", "nemo-gym", "smolagents"}
    loops |= {"skyrl", "lm-eval", "harbor"}
    extras = set(metadata.get_all("Provides-Extra", []))
    assert loops <= extras
    of_all = [line for line in metadata.get_all("Requires-Dist", []) if 'extra == "all"' in line]
    named = [re.fullmatch(r"fctncalling\[(.*)\]; .*", line)[1] for line in of_all]  # type: ignore[index]
    assert extras - apart - loops == set(",".join(named).split(","))


def test_the_source_distribution_lists_every_example() -> None:
    """By the patterns of MANIFEST.in; a distribution is built in `test_wheel.py`."""
    manifest = (ROOT / "MANIFEST.in").read_text()
    [patterns] = re.findall(r"^recursive-include examples (.*)$", manifest, re.MULTILINE)
    assert "recursive-include fctncalling/lab/embedded *.py *.json" in manifest  # not in the wheel
    for file in (ROOT / "examples").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert any(file.match(pattern) for pattern in patterns.split()), file


def test_every_folder_of_modules_is_a_package() -> None:
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            if "__pycache__" not in file.parts:
                assert (file.parent / "__init__.py").exists(), (
                    f"{file.parent} would not be installed"
                )


def test_the_licence_is_the_apache_text_in_full() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert "limitations under the License." in text
    assert len(text.encode()) == 11_358  # as the Apache Software Foundation publishes it
    assert "Berkeley Function Calling Leaderboard" in (ROOT / "NOTICE").read_text()
