"""Goals that take several calls on files: where to work, and a folder that is to go."""

from __future__ import annotations

from typing import Any

from fctncalling.envs.tools.bfcl.directory_tree import File
from fctncalling.lab.forge.multi_turn.arguments import inferred, said
from fctncalling.lab.forge.multi_turn.knowledge import is_refusal
from fctncalling.lab.forge.multi_turn.walk import Walk
from fctncalling.lab.forge.multi_turn.worlds import inventory
from fctncalling.lab.forge.plan import Purpose, Value

CLEAR_FOLDER_CALLS = 4


def go_elsewhere(walk: Walk) -> bool:
    """Change the directory without being asked to: to one that the words name, or up."""
    names = inventory.folders(walk.session.live_state())
    filled = [name for name, folder in names.items() if folder.contents]
    if not filled:
        return _go_up(walk)
    known = walk.drafter.known("folder")
    folder = known if known and known.value in filled else said("folder", walk.draw.choice(filled))
    return _made(walk, "cd", {"folder": folder}, "needed_step")


def clear_folder(walk: Walk) -> bool:
    """Remove the only file of a folder, then the folder; False where there is no such folder."""
    folders = inventory.folders(walk.session.live_state())
    files = {
        name: [each for each, item in folder.contents.items() if isinstance(item, File)]
        for name, folder in folders.items()
        if len(folder.contents) == 1
    }
    names = [name for name, inside in files.items() if inside]
    if not names:
        return False
    name = walk.draw.choice(names)
    return (
        _made(walk, "cd", {"folder": said("folder", name)}, "needed_step")
        and _made(walk, "rm", {"file_name": said("entry_name", files[name][0])}, "asked")
        and _go_up(walk)
        and _made(walk, "rmdir", {"dir_name": said("folder", name)}, "asked")
    )


def _go_up(walk: Walk) -> bool:
    return _made(walk, "cd", {"folder": inferred("folder", "..", "parent_folder")}, "needed_step")


def _made(walk: Walk, function: str, arguments: dict[str, Value], purpose: Purpose) -> bool:
    text: Any = walk.execute(function, arguments)
    if is_refusal(text):
        return False
    walk.add(function, arguments, purpose, text)
    return True
