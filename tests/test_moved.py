"""Former import paths lead to the very modules and names that moved, with a DeprecationWarning."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from fctncalling.moved import current_module_name, moved_paths

MOVED, NAMES = moved_paths("modules"), moved_paths("names")


def test_a_path_below_a_moved_package_moves_with_it() -> None:
    assert (
        current_module_name("fctncalling.forge.words.grammar")
        == "fctncalling.lab.forge.words.grammar"
    )
    assert current_module_name("fctncalling.doctor.finding") == "fctncalling.lab.doctor.finding"
    assert (
        current_module_name("fctncalling.forgery")
        is current_module_name("fctncalling.lab.forge")
        is None
    )


@pytest.mark.parametrize("former", sorted(MOVED))
def test_a_former_path_gives_the_module_itself(former: str) -> None:
    if "pettingzoo" in MOVED[former]:
        pytest.importorskip("pettingzoo")  # an extra
    sys.modules.pop(former, None)
    with pytest.warns(DeprecationWarning, match=f"{former} is now {MOVED[former]};"):
        assert import_module(former) is import_module(MOVED[former])


def test_a_class_below_a_moved_package_is_one_class_by_both_paths() -> None:
    program = (
        "from fctncalling.forge.forge_run import ForgeRun as former\n"
        "from fctncalling.lab.forge.forge_run import ForgeRun\n"
        "import fctncalling.viewer, fctncalling.lab.viewer as present\n"
        "assert former is ForgeRun and fctncalling.viewer is present"
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


def test_former_names_of_a_former_module_are_found_in_it() -> None:
    program = (
        "from fctncalling.envs.tool_text.presets import calculator, python_math\n"
        "assert calculator(max_turns=1).unwrapped"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


PROMISED = {  # names that pages of 0.2 and 0.3 imported, by module
    "fctncalling.envs.dialogue.dialogue": "Dialogue aplay info_to_json opening play score",
    "fctncalling.envs.dialogue.info_json": "info_to_json",
    "fctncalling.evaluation.play_episodes": "play_episodes",
    "fctncalling.lab.own_api.specifications": "load_api",
    "fctncalling.text_environment.load_tool": "load_tool",
    "fctncalling.text_environment.text_environment": "TextEnvironment",
    "fctncalling.text_environment.text_history": "TextHistory",
    "fctncalling.text_environment.text_trainer": "TextTrainer",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", PROMISED)
def test_what_a_page_imported_is_imported_by_its_former_path(module: str) -> None:
    found = import_module(module)
    assert all(hasattr(found, name) for name in PROMISED[module].split())


def test_a_name_that_never_was_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="types' has no attribute 'TurnRecords'"):
        _ = import_module("fctncalling.data.types").TurnRecords
