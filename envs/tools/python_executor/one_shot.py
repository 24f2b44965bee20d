"""A fresh interpreter for one call, where forking a warm one is unsafe (macOS); the price is its start."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import NoReturn

from fctncalling.envs.tools.python_executor.confinement import Confinement
from fctncalling.envs.tools.python_executor.preload import preload
from fctncalling.envs.tools.python_executor.snippet import Stage
from fctncalling.envs.tools.python_executor.zygote import (
    SETUP_FAILED,
    STATUS,
    above_reserved,
    confine_and_read,
    drop_user,
    reserve_low_descriptors,
)


def main(status: int, settings_text: str) -> NoReturn:
    """Import, confine, say so on descriptor `status`, read the code from descriptor 0, run it, exit."""
    status = above_reserved(status)
    reserve_low_descriptors()
    settings = json.loads(settings_text)
    sys.path += [folder for folder in settings["path"] if folder not in sys.path]
    code = SETUP_FAILED
    try:
        preload(settings["allowed_modules"])
        time.tzset()
        os.chdir("/")
        stage = Stage(
            frozenset(settings["allowed_modules"]), tuple(settings["restricted_functions"])
        )
        confinement = Confinement(tuple(settings["layers"]), threads=settings["threads"])
        drop_user(settings["user"])
        os.dup2(status, STATUS)
        source = confine_and_read(confinement, settings["memory_bytes"], settings["cpu_s"])
        if settings["seed"] is not None:
            stage.seed(settings["seed"])
        code = stage.run(source, policy=settings["policy"])
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)
