"""GorillaFileSystem answers and changes its tree exactly as BFCL's, quirks included."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.directory_tree import Directory, File
from fctncalling.envs.tools.bfcl.gorilla_file_system import MAX_FOUND, GorillaFileSystem

POEM = "b two\na one\nb two words\n"


def file_system(long_context: bool = False) -> GorillaFileSystem:
    def text(content: str) -> dict[str, Any]:
        return {"type": "file", "content": content}

    contents = {
        "poem.txt": text(POEM),
        "other.txt": text("b two\na 1"),
        ".hidden": text("é"),
        "docs": {
            "type": "directory",
            "contents": {"deep": {"type": "directory", "contents": {}}, "log.txt": text("x")},
        },
        "socket": {"type": "socket"},
    }
    tool = GorillaFileSystem()
    roots = {"home": {"type": "directory", "contents": contents}, "ignored": {"contents": {}}}
    tool._load_scenario({"root": roots}, long_context=long_context)
    return tool


@pytest.fixture
def tool() -> GorillaFileSystem:
    return file_system()


def run(tool: GorillaFileSystem, *steps: str) -> Any:
    """Call methods written as "name argument ..." and return the last result."""
    result = None
    for step in steps:
        name, *arguments = step.split()
        result = getattr(tool, name)(*arguments)
    return result


NAMES = ["poem.txt", "other.txt", "docs"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["cd docs", "cd /"], {"current_working_directory": "home"}),
        (["cd docs", "cd .."], {}),
        (["cd docs", "cd ..", "pwd"], {"current_working_directory": "/home"}),
        (["cd .."], {"error": "Current directory is already the root. Cannot go back."}),
        (
            ["cd docs/deep/"],
            {
                "error": "cd: docs/deep: Unsupported path. Only one folder level at a time is "
                "supported."
            },
        ),
        (
            ["cd /docs"],
            {"error": "cd: /docs: Unsupported path. Only one folder level at a time is supported."},
        ),
        (["mkdir a/b"], {"error": "mkdir: cannot create directory 'a/b': Invalid character"}),
        (["touch docs"], {"error": "touch: cannot touch 'docs': File exists"}),
        (["touch a?"], {"error": "touch: cannot touch 'a?': Invalid character"}),
        (["echo hi other.txt"], None),
        (["echo hi other.txt", "cat other.txt"], {"file_content": "hi"}),
        (["echo hi a|b"], {"error": "echo: cannot write to 'a|b': Invalid character"}),
        (["cat docs"], {"error": "cat: 'docs': Is a directory"}),
        (["cat docs/log.txt"], {"error": "cat: 'docs/log.txt': Invalid character"}),
        (["cd docs", "find / deep"], {"matches": ["/docs/deep"]}),
        (["wc poem.txt"], {"count": 3, "type": "lines"}),
        (["wc poem.txt w"], {"count": 7, "type": "words"}),
        (["wc .hidden c"], {"count": 1, "type": "characters"}),
        (["sort poem.txt"], {"sorted_content": "a one\nb two\nb two words"}),
        (["sort poem.txt", "cat poem.txt"], {"file_content": POEM}),
        (["tail poem.txt"], {"last_lines": POEM.rstrip("\n")}),
        (["diff poem.txt other.txt"], {"diff_lines": "- a one\n+ a 1"}),
        (["diff poem.txt poem.txt"], {"diff_lines": ""}),
        (["mv poem.txt docs"], {"result": "'poem.txt' moved to 'docs/poem.txt'"}),
        (
            ["mv poem.txt other.txt"],
            {"error": "mv: cannot move 'poem.txt' to 'other.txt': Not a directory"},
        ),
        (["mv poem.txt ."], {"error": "mv: cannot move 'poem.txt' to './poem.txt': File exists"}),
        (
            ["mv poem.txt docs/deep"],
            {
                "error": "mv: path not allowed in destination. Provide only a file or directory "
                "name."
            },
        ),
        (
            ["touch log.txt", "mv log.txt docs"],
            {"error": "mv: cannot move 'log.txt' to 'docs/log.txt': File exists"},
        ),
        (["mv docs docs"], {"result": "'docs' moved to 'docs/docs'"}),
        (["mv docs docs", "ls"], {"current_directory_content": ["poem.txt", "other.txt"]}),
        (["rmdir docs"], {"error": "rmdir: cannot remove 'docs': Directory not empty"}),
        (["rmdir poem.txt"], {"error": "rmdir: cannot remove 'poem.txt': Not a directory"}),
        (["mkdir new", "rmdir new"], {"result": "'new' removed"}),
        (["cp poem.txt docs", "cd docs", "cat poem.txt"], {"file_content": POEM}),
        (["cp docs folder", "cd folder", "ls"], {"current_directory_content": ["deep", "log.txt"]}),
        (
            ["cp poem.txt other.txt"],
            {"error": "cp: cannot copy 'poem.txt' to 'other.txt': Not a directory"},
        ),
        (
            ["cp poem.txt docs/deep"],
            {
                "error": "cp: path not allowed in destination. Provide only a file or directory "
                "name."
            },
        ),
    ],
)
def test_command_answers_in_bfcl_words(
    tool: GorillaFileSystem, steps: list[str], expected: Any
) -> None:
    assert run(tool, *steps) == expected


@pytest.mark.parametrize(
    ("lines", "expected"), [(1, "c"), (0, "a\nb\nc"), (-1, "b\nc"), (99, "a\nb\nc")]
)
def test_tail_slices_as_python_does(tool: GorillaFileSystem, lines: int, expected: str) -> None:
    tool.echo("a\nb\nc", "poem.txt")
    assert tool.tail("poem.txt", lines) == {"last_lines": expected}


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1023, "1023.00 B"), (1024, "1.00 KB"), (1536, "1.50 KB"), (3 << 20, "3.00 MB")],
)
def test_disk_usage_changes_unit_at_1024(size: int, expected: str) -> None:
    tool = GorillaFileSystem()
    tool._load_scenario({})
    tool.touch("f")
    tool.echo("x" * size, "f")
    assert tool.du(human_readable=True) == {"disk_usage": expected}


@pytest.mark.parametrize(
    ("method", "arguments", "text"),
    [
        ("cd", (5,), "'int' object has no attribute 'rstrip'"),
        ("find", (None,), "'NoneType' object has no attribute 'rstrip'"),
        ("mkdir", (5,), "argument of type 'int' is not"),
        ("echo", ("x", "docs"), "'Directory' object has no attribute '_write'"),
        ("echo", ("x", ["docs"]), "unhashable type: 'list'"),
        (
            "tail",
            ("poem.txt", 1.5),
            "slice indices must be integers or None or have an __index__ method",
        ),
        ("cp", ("poem.txt", "."), "File 'poem.txt' already exists in directory 'home'."),
        ("cp", ("docs", "."), "Directory 'docs' already exists in directory 'home'."),
    ],
)
def test_wrong_argument_raises_what_the_interpreter_or_the_tree_says(
    tool: GorillaFileSystem, method: str, arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
        getattr(tool, method)(*arguments)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("file_name", ["", []])
def test_echo_to_an_empty_name_prints(tool: GorillaFileSystem, file_name: Any) -> None:
    assert tool.echo("hi", file_name) == {"terminal_output": "hi"}


def test_empty_scenario_is_a_root_called_slash() -> None:
    tool = GorillaFileSystem()
    tool._load_scenario({}, long_context=True)
    assert run(tool, "pwd") == {"current_working_directory": "//"}
    assert run(tool, "mkdir a", "cd a", "pwd") == {"current_working_directory": "///a"}
    assert list(vars(tool)) == ["long_context", "root", "_current_dir"]
    assert (tool.long_context, tool.root.name) == (True, "/")


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ({"root": {}}, IndexError),
        ({"root": {"r": {}}}, KeyError),
        ({"root": {"r": {"contents": {"f": {"type": "file"}}}}}, KeyError),
        ({"root": {"r": {"contents": {"f": {"content": ""}}}}}, KeyError),
    ],
)
def test_broken_scenario_raises_at_load(scenario: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        GorillaFileSystem()._load_scenario(scenario)


@pytest.mark.usefixtures("shared")
def test_long_context_lengthens_files_and_fills_innermost_directories(
    shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FCTNCALLING_LONG_CONTEXT", str(shared / "bfcl" / "data"))
    tool = file_system(long_context=True)
    assert run(tool, "wc other.txt c")["count"] == len("b two\na 1") + 3251
    assert (
        run(tool, "ls")["current_directory_content"] == NAMES
    )  # it holds a directory, so nothing is added
    assert run(tool, "cd docs", "cat log.txt") == {
        "file_content": "x"
    }  # one of the nine names spared
    assert len(run(tool, "ls")["current_directory_content"]) == 2
    assert len(run(tool, "cd deep", "ls")["current_directory_content"]) == 30
    assert run(tool, "mkdir later", "cd later", "ls") == {"current_directory_content": []}


def test_child_of_a_moved_directory_goes_back_to_the_old_one(tool: GorillaFileSystem) -> None:
    assert run(tool, "mv docs papers", "cd papers", "cd deep", "pwd") == {
        "current_working_directory": "/home/docs/deep"
    }
    assert run(tool, "cd ..", "touch x", "cd ..", "cd papers", "cat x") == {"file_content": ""}


def test_child_file_of_a_copied_directory_is_the_same_object(tool: GorillaFileSystem) -> None:
    run(
        tool, "cp docs folder", "cd folder", "echo changed log.txt", "touch own", "cd ..", "cd docs"
    )
    assert run(tool, "cat log.txt") == {"file_content": "changed"}
    assert run(tool, "cat own") == {"error": "cat: 'own': No such file or directory"}


@pytest.mark.parametrize("command", ["du", "find"])
def test_directory_copied_into_itself_ends_in_a_recursion_error(
    tool: GorillaFileSystem, command: str
) -> None:
    run(tool, "cp docs docs")
    with pytest.raises(RecursionError, match=r"^maximum recursion depth exceeded"):
        run(tool, command)


def test_cyclic_trees_compare_copy_and_print(tool: GorillaFileSystem) -> None:
    run(tool, "cp docs docs")
    twin = copy.deepcopy(tool)
    assert twin.root == tool.root
    assert repr(twin.root).endswith("…")
    run(twin, "cd docs", "cd docs", "touch x")
    assert twin.root != tool.root


def grow_exponentially(tool: GorillaFileSystem, levels: int) -> None:
    for level in range(levels):
        run(
            tool,
            f"mkdir d{level + 1}",
            f"cp d{level} d{level + 1}",
            f"mv d{level} e{level}",
            f"mv e{level} d{level + 1}",
        )


def test_shared_directories_cost_no_more_than_their_objects(tool: GorillaFileSystem) -> None:
    run(tool, "mkdir d0", "cd d0", "touch f", "echo x f", "cd ..")
    grow_exponentially(tool, 50)
    started = time.process_time()
    twin = copy.deepcopy(tool)
    assert twin.root == tool.root
    assert run(tool, "du") == {"disk_usage": f"{36 + 2**50} bytes"}
    with pytest.raises(ValueError, match=str(MAX_FOUND)):
        run(tool, "find")
    assert time.process_time() - started < 5.0


def test_deep_trees_compare_and_copy(tool: GorillaFileSystem) -> None:
    for _ in range(3000):
        run(tool, "mkdir a", "cd a")
    twin = copy.deepcopy(tool)
    assert twin.root == tool.root
    run(tool, "touch leaf")
    assert twin.root != tool.root


def test_equality_is_by_name_and_contents_whatever_order_and_parent(
    tool: GorillaFileSystem,
) -> None:
    other = file_system()
    run(other, "cp poem.txt x", "rm poem.txt", "mv x poem.txt")
    assert other.root == tool.root
    run(other, "echo changed poem.txt")
    assert other.root != tool.root
    assert Directory("a", tool.root) == Directory("a")
    assert Directory("a") != File("a")
    assert File("a", 1) == File("a", 1.0)


def test_deep_copy_keeps_sharing_inside_and_shares_nothing_outside(tool: GorillaFileSystem) -> None:
    run(
        tool, "mv docs papers", "cd papers", "cd deep"
    )  # the current directory hangs on the old `docs`
    twin = copy.deepcopy(tool)
    run(twin, "cd ..", "touch x", "cd ..", "cd papers")
    assert "x" in run(twin, "ls")["current_directory_content"]
    assert run(tool, "cd ..", "ls") == {"current_directory_content": ["deep", "log.txt"]}
    assert list(copy.deepcopy(tool.root).contents) == list(tool.root.contents)


def test_state_survives_pickling(tool: GorillaFileSystem) -> None:
    twin = pickle.loads(pickle.dumps(run(tool, "cd docs") and tool))
    assert twin.root == tool.root
    assert run(twin, "pwd") == {"current_working_directory": "/home/docs"}


def test_text_form_is_bfcl_own(tool: GorillaFileSystem) -> None:
    run(tool, "rm poem.txt", "rm other.txt", "rm .hidden", "cd docs", "rmdir deep")
    inner = "{'log.txt': <<File: log.txt, Content: x>>}"
    docs = f"<Directory: docs, Parent: home, Contents: {inner}>"
    assert repr(tool.root) == f"<Directory: home, Parent: None, Contents: {{'docs': {docs}}}>"
