"""AdaptSettings: settings of one adaptation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fctncalling.lab.own_api.api_part import part_of_api
from fctncalling.lab.own_api.function_choice import MOST_OFFERED
from fctncalling.lab.own_api.load import load_api
from fctncalling.specification.api import OwnApi

LATER = {"offered": MOST_OFFERED, "operations": [], "tags": []}
"""Settings that a folder of an earlier version lacks, at their defaults."""


class AdaptError(ValueError):
    """Adaptation that cannot go on; the message has the reason and the cure, in one line."""


@dataclass(frozen=True)
class AdaptSettings:
    """Settings of an adaptation; the first command's hold for those that go on."""

    spec: str
    output: Path
    model: str | None = None
    minutes: float = 60.0
    test: Path | None = None
    tasks: Path | None = None  # in place of forged ones
    scenarios: Path | None = None
    kinds: Path | None = None
    phrases: Path | None = None
    offered: int = MOST_OFFERED  # functions that a request is offered at most
    operations: Sequence[str] = ()  # patterns of the part of the API that is taken
    tags: Sequence[str] = ()
    seed: int = 1
    torch_threads: int = 1
    evaluate: str | None = None  # an endpoint's model, measured without training
    base_url: str | None = None

    def api(self) -> OwnApi:
        """Load the API or its selected part; raises SpecificationError if it is empty."""
        return part_of_api(
            load_api(self.spec, scenarios=self.scenarios), self.operations, self.tags
        )

    def record(self) -> dict[str, Any]:
        """Return the settings that decide the results, as JSON holds them."""
        values = {key: _plain(each) for key, each in asdict(self).items()}
        del values["output"], values["minutes"]
        return values

    def keep(self) -> None:
        """Write the settings to the output folder; AdaptError where others are there already.

        Until the tasks are made other settings may take the folder: what was timed is left out.
        """
        file = self.output / "work" / "settings.json"
        if not file.exists():
            if self.output.exists() and any(self.output.iterdir()):
                raise AdaptError(f"--output {self.output}: holds other files: name a new folder")
            file.parent.mkdir(parents=True, exist_ok=True)
            self._write(file)
            return
        former = json.loads(file.read_text(encoding="utf-8"))
        wanted = self.record()
        changed = [key for key, each in wanted.items() if former.get(key, LATER.get(key)) != each]
        if changed and not (file.parent / "tasks").is_dir():
            shutil.rmtree(file.parent)
            file.parent.mkdir()
            self._write(file)
        elif changed:
            raise AdaptError(
                f"--output {self.output}: was begun with --{changed[0]} {former.get(changed[0])}: "
                "expected the same flags to go on, or a new folder"
            )

    def _write(self, file: Path) -> None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(self.record(), indent=1), encoding="utf-8")
        part.rename(file)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*value]
    return str(value) if isinstance(value, Path) else value
