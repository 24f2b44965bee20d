"""Fresh interpreter for one call, where forking a warm one is unsafe (macOS)."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import time
from typing import Any, NoReturn

from fctncalling.envs.tools.python_executor.confinement import Confinement, LayerError, prctl
from fctncalling.envs.tools.python_executor.confinement.kernel_calls import PR_SET_PDEATHSIG
from fctncalling.envs.tools.python_executor.protocol import (
    DONE,
    SETUP_FAILED,
    STATUS,
    above_reserved,
    reserve_low_descriptors,
)
from fctncalling.envs.tools.python_executor.snippet import (
    MainModule,
    confine_and_read,
    leave,
    serve_session,
)
from fctncalling.envs.tools.python_executor.zygote import drop_user, preload_without_host_name


def main(status: int, settings_text: str) -> NoReturn:
    """Entry point of a child: import, confine, report on `status`, run the code, exit.

    The code is read from descriptor 0.

    With `greet` among the settings: say instead which layers and which user there are, and run
    nothing.
    """
    settings = json.loads(settings_text)
    status = above_reserved(status)
    done = above_reserved(settings["done"]) if settings.get("done") else None
    reserve_low_descriptors()
    sys.path += [folder for folder in settings["path"] if folder not in sys.path]
    code = SETUP_FAILED
    try:
        main_module, confinement, user = prepare(settings)
        if settings.get("greet"):
            greeting = {
                "layers": confinement.layers,
                "missing": confinement.missing,
                "user": user,
                "leaves_orphans": True,  # no zygote, as subreaper, kills what a call left
            }
            os.write(status, json.dumps(greeting).encode())
            leave(0)
        if confinement.missing or user != settings["runs_as"]:
            raise LayerError(
                errno.EPERM, f"less holds than at the start: {confinement.missing} {user}"
            )
        die_with(settings["parent"])
        os.dup2(status, STATUS)
        start_up_s = math.ceil(time.process_time())  # not the snippet's
        limits = settings["memory_bytes"], settings["cpu_s"] + start_up_s
        if done is not None:
            os.dup2(done, DONE)
            serve_session(main_module, confinement, *limits)
        source = confine_and_read(confinement, *limits)
        if settings["seed"] is not None:
            main_module.seed(settings["seed"])
        code = main_module.run(source, policy=settings["policy"])
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        leave(code)


def prepare(settings: dict[str, Any]) -> tuple[MainModule, Confinement, str]:
    """Import what the snippet may use, drop the user, and return what the call needs."""
    preload_without_host_name(settings["allowed_modules"])
    time.tzset()
    os.chdir("/")
    main_module = MainModule(
        frozenset(settings["allowed_modules"]), tuple(settings["restricted_functions"])
    )
    confinement = Confinement(tuple(settings["layers"]), threads=settings["threads"])
    return main_module, confinement, drop_user(settings["user"])


def die_with(parent: int) -> None:
    """Have the kernel kill this process with its caller.

    After the change of user, which would undo this.
    """
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this
        leave(SETUP_FAILED)
