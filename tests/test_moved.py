"""Former import paths lead to the very modules and names that moved, with a DeprecationWarning."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from fctncalling.moved import current_module_name, moved_paths

MOVED, NAMES = moved_paths("modules"), moved_paths("names")


def test_a_path_below_a_moved_package_moves_with_it() -> None:
    below = current_module_name("fctncalling.training.rollouts.ray.workers")
    assert below == "fctncalling.training.rollouts.workers"
    assert current_module_name("fctncalling.training.rollouts.rays") is None
    assert current_module_name("fctncalling.training.rollouts") is None


def test_paths_that_0_3_announced_to_leave_are_gone() -> None:
    for former in ("forge", "viewer.page_data", "text_environment", "evaluation.play_episodes"):
        with pytest.raises(ModuleNotFoundError):
            import_module(f"fctncalling.{former}")


@pytest.mark.parametrize("former", sorted(MOVED))
def test_a_former_path_gives_the_module_itself(former: str) -> None:
    if "pettingzoo" in MOVED[former]:
        pytest.importorskip("pettingzoo")  # an extra
    sys.modules.pop(former, None)
    with pytest.warns(DeprecationWarning, match=f"{former} is now {MOVED[former]};"):
        assert import_module(former) is import_module(MOVED[former])


def test_a_class_below_a_moved_package_is_one_class_by_both_paths() -> None:
    program = (
        "from fctncalling.lab.own_api.schema import SchemaReader as former\n"
        "from fctncalling.specification.schema import SchemaReader\n"
        "import fctncalling.training.profiler, fctncalling.lab.profiler as present\n"
        "assert former is SchemaReader and fctncalling.training.profiler is present"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("former", sorted(NAMES))
def test_a_former_name_gives_what_it_named(former: str) -> None:
    for extra in ("lm_eval", "skyrl_gym", "verifiers"):
        if f".{extra.removesuffix('_gym')}." in former:
            pytest.importorskip(extra)
    (module, name), (home, now) = (path.rsplit(".", 1) for path in (former, NAMES[former]))
    with pytest.warns(DeprecationWarning, match=f"{former} is now {NAMES[former]};") as told:
        assert getattr(import_module(module), name) is getattr(import_module(home), now)
    assert told[0].filename == __file__


PROMISED = {  # names that pages of 0.3 imported, by module
    "fctncalling.envs.dialogue.dialogue": "Dialogue aplay info_to_json opening play score",
    "fctncalling.lab.own_api.specifications": "load_api",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", PROMISED)
def test_what_a_page_imported_is_imported_by_its_former_path(module: str) -> None:
    found = import_module(module)
    assert all(hasattr(found, name) for name in PROMISED[module].split())


def test_a_name_that_never_was_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="types' has no attribute 'TurnRecords'"):
        _ = import_module("fctncalling.data.types").TurnRecords
