"""Every key of OpenRLHF's tool configuration is enforced, and whatever cannot be is an error that
names the key.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fctncalling.envs.tools.python_executor import ConfigError, PythonExecutor, load_config

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no executor on Windows")

EXAMPLE: dict[str, Any] = {
    "tools": [
        {
            "name": "python_executor",
            "description": "Execute Python code and return the output",
            "enabled": True,
            "max_output_length": 1000,
            "timeout_seconds": 10,
        }
    ],
    "execution": {"max_tools_per_generation": 1, "parallel_execution": True, "num_executors": 32},
    "security": {
        "allowed_modules": [
            *("math", "random", "datetime", "time", "re", "json"),
            *("collections", "itertools", "functools", "numpy"),
        ],
        "restricted_functions": ["eval", "exec", "compile", "open", "file", "__import__", "input"],
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the example with one key set; the path's `tools` means its first entry."""
    config = copy.deepcopy(EXAMPLE)
    part, key = path.split(".")
    (config["tools"][0] if part == "tools" else config[part])[key] = value
    return config


def test_the_example_loads_as_written() -> None:
    config = load_config(EXAMPLE)
    assert (config.enabled, config.timeout_s, config.max_output_length) == (True, 10, 1000)
    assert (config.max_tools_per_generation, config.parallel_execution, config.num_executors) == (
        1,
        True,
        32,
    )
    assert config.description == "Execute Python code and return the output"
    assert config.max_running == 32
    assert list(config.allowed_modules) == EXAMPLE["security"]["allowed_modules"]
    assert any("file()" in note for note in config.notes)


def test_a_file_reads_like_its_dict(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(EXAMPLE))
    assert load_config(path) == load_config(EXAMPLE)
    with pytest.raises(ConfigError, match=r"absent\.json"):
        load_config(tmp_path / "absent.json")
    path.write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        load_config(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("tools.name", "shell"),
        ("tools.description", 3),
        ("tools.enabled", "yes"),
        ("tools.max_output_length", "1000"),
        ("tools.max_output_length", 0),
        ("tools.timeout_seconds", None),
        ("tools.timeout_seconds", -1),
        ("tools.timeout_seconds", True),
        ("tools.timeout_seconds", float("nan")),
        ("execution.max_tools_per_generation", 1.5),
        ("execution.parallel_execution", 1),
        ("execution.num_executors", 0),
        ("security.allowed_modules", "math"),
        ("security.allowed_modules", [1]),
        ("security.allowed_modules", ["no_such_module"]),
        ("security.allowed_modules", ["math", "socket"]),
        ("security.allowed_modules", ["urllib.request"]),
        ("security.allowed_modules", ["multiprocessing.pool"]),
        ("security.allowed_modules", ["fctncalling"]),
        ("security.allowed_modules", ["__main__"]),
        ("security.allowed_modules", ["numpy as np"]),
        ("tools.memory_mb", 1 << 40),
        ("tools.timeout_seconds", 1e9),
        ("security.restricted_functions", ["no_such_function"]),
        ("security.restricted_functions", {}),
        ("security.allow_degraded", "no"),
        ("tools.timeout", 10),
        ("execution.threads", 1),
        ("security.network", False),
    ],
)
def test_wrong_values_and_unknown_keys_are_named(path: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(changed(path, value))
    assert path.split(".")[1] in str(error.value)


def test_unknown_parts_and_repeated_tools_are_named() -> None:
    with pytest.raises(ConfigError, match="'sandbox'"):
        load_config({**EXAMPLE, "sandbox": {}})
    with pytest.raises(ConfigError, match=r"tools\[1\]"):
        load_config({**EXAMPLE, "tools": EXAMPLE["tools"] * 2})


def test_enabled_false_denies_every_call_and_starts_nothing() -> None:
    for config in (changed("tools.enabled", False), {**EXAMPLE, "tools": []}):
        with PythonExecutor(config) as executor:
            assert executor.zygote_pid is None
            result = executor.run("print(1)")
        assert (result.status, result.stdout) == ("denied", "")
        assert "disabled" in result.text


def test_timeout_seconds_stops_a_call() -> None:
    with PythonExecutor(changed("tools.timeout_seconds", 0.3)) as executor:
        assert executor.run("while True: pass").status == "timeout"


def test_max_output_length_cuts_the_output() -> None:
    with PythonExecutor(changed("tools.max_output_length", 50)) as executor:
        assert len(executor.run("print('x' * 999)").stdout) == 50


@pytest.mark.parametrize(("parallel", "num_executors"), [(False, 32), (True, 1)])
def test_parallel_execution_and_num_executors_bound_the_calls_in_flight(
    parallel: bool, num_executors: int
) -> None:
    config = changed("execution.parallel_execution", parallel)
    config["execution"]["num_executors"] = num_executors
    with PythonExecutor(config) as executor:
        start = time.perf_counter()
        executor.map(["import time\ntime.sleep(0.1)"] * 3)
    assert time.perf_counter() - start >= 0.3


def test_allowed_modules_are_all_that_can_be_imported() -> None:
    with PythonExecutor(changed("security.allowed_modules", ["math", "os.path"])) as executor:
        assert executor.run("import math, os.path\nprint(math.pi > 3)").stdout == "True\n"
        refused = executor.run("import json")
    assert refused.status == "error"
    assert "module 'json' is not allowed here; allowed: math, os.path" in refused.stderr


def test_restricted_functions_say_so_and_libraries_keep_theirs() -> None:
    library = "from collections import namedtuple\nprint(namedtuple('P', 'x')(1).x)\n"
    names = EXAMPLE["security"]["restricted_functions"]
    with PythonExecutor(EXAMPLE) as executor:
        results = executor.map([f"{library}{name}('math')" for name in names])
    for name, result in zip(names, results, strict=True):
        assert result.stdout == "1\n"
        assert f"{name}() is disabled by the tool configuration" in result.stderr
    with PythonExecutor(changed("security.restricted_functions", [])) as executor:
        assert executor.run("print(eval('1 + 1'), __import__('math').pi > 3)").stdout == "2 True\n"


def test_modules_and_functions_can_be_given_as_keywords() -> None:
    with PythonExecutor(
        EXAMPLE, allowed_modules=["math"], restricted_functions=["print"]
    ) as executor:
        assert (
            "module 'json' is not allowed here; allowed: math" in executor.run("import json").stderr
        )
        assert "print() is disabled" in executor.run("import math\nprint(eval('1'))").stderr
    with pytest.raises(ConfigError, match=r"'subprocess' cannot work: it needs processes"):
        PythonExecutor(allowed_modules=["math", "subprocess"])
    with pytest.raises(ConfigError, match=r"allowed_modules is 'math'; expected a list"):
        PythonExecutor(allowed_modules="math")


def test_keywords_that_are_given_win_over_the_configuration() -> None:
    with PythonExecutor(EXAMPLE, timeout_s=0.2, memory_mb=64) as executor:
        assert executor.config.max_output_length == 1000
        assert executor.run("while True: pass").status == "timeout"
        assert executor.run("b'x' * (80 << 20)").reason == "It ran out of memory"
    with pytest.raises(ConfigError, match="timeout_s"):
        PythonExecutor(timeout_s=-1)


def test_threads_start_only_where_an_allowed_module_is_about_them() -> None:
    code = (
        "import threading\nthread = threading.Thread(target=print, "
        "args=('ran',))\nthread.start()\nthread.join()"
    )
    with PythonExecutor(changed("security.allowed_modules", ["threading"])) as executor:
        assert executor.run(code).stdout == "ran\n"
        assert not executor.report()["degraded"]
