"""Classes of a user's own that a task names by their path, as in `"involved_classes": ["my_tools.MyAPI"]`.

Reading a task imports nothing: a path becomes the class's bare name, by which everything else knows it, and
`Task.tool_paths` keeps where it is found. Whoever plays the task decides whether it is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fctncalling.data.errors import Location

_PATH = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)[.:]([A-Za-z_]\w*)")


def named_classes(
    entry: Mapping[str, Any], place: Location
) -> tuple[tuple[str, ...], dict[str, str], Mapping[str, Mapping[str, Any]]]:
    """Return an entry's classes by their bare names, name -> "module:Class", and name -> scenario.

    A scenario stands under the class's path or its bare name. Raises TaskError at `place`.
    """
    written: Sequence[str] = entry.get("involved_classes", entry.get("invoked_classes", []))
    scenarios = dict(entry.get("initial_config", {}))
    names, paths = list[str](), dict[str, str]()
    for each in written:
        name = each
        if "." in each or ":" in each:
            found = _PATH.fullmatch(each)
            if found is None:
                raise place.error(
                    f'involved_classes: expected a class\'s name or "module.Class", found {each!r:.60}'
                )
            name = found[2]
            if name in names:
                raise place.error(
                    f'involved_classes: expected one class called "{name}", found {each!r:.60} too'
                )
            paths[name] = f"{found[1]}:{name}"
            if each in scenarios:
                scenarios[name] = scenarios.pop(each)
        names.append(name)
    for name in names:
        if not isinstance(scenario := scenarios.get(name, {}), dict):
            raise place.error(
                f"initial_config.{name}: expected the class's scenario (an object), found {scenario!r:.60}"
            )
    return tuple(names), paths, scenarios
