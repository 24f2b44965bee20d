"""BFCL's GorillaFileSystem: a shell over an imaginary directory tree.

Deviations, all where BFCL's own would hang or crash: `find` refuses to list more than MAX_FOUND
entries, and directories that contain themselves compare by value instead of ending the check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.directory_tree import Directory, File
from fctncalling.envs.tools.bfcl.long_context import long_context_table
from fctncalling.envs.tools.tool_state import snapshot

MAX_FOUND = 100_000
"""Entries `find` visits at most: shared directories can unfold to exponentially many paths."""

_TABLE = load_bfcl_table("gorilla_file_system")
_CYCLE = "maximum recursion depth exceeded"  # what BFCL's unbounded recursion ends in


def _is_valid_name(name: Any) -> bool:
    """Whether the name has no forbidden character.

    "" and "." are valid, a number raises TypeError.
    """
    return not any(character in name for character in _TABLE["invalid_name_characters"])


class GorillaFileSystem:
    """BFCL's file system: a tree of directories, one of them the current one.

    `root` and `long_context` are compared, the current directory is not.
    """

    long_context: bool
    root: Directory
    _current_dir: Directory
    _copies_scenario = True  # it takes names and texts, and no object, out of a scenario

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Build the tree below the FIRST key of scenario["root"].

        Without one, an empty directory "/".
        """
        self.long_context = long_context
        self.root = Directory("/")
        if "root" in scenario:
            name = list(scenario["root"])[0]  # noqa: RUF015  (an empty root raises IndexError, as in BFCL)
            self.root = Directory(name)
            extension = _Extension() if long_context else None
            self._fill(self.root, scenario["root"][name]["contents"], extension)
        self._current_dir = self.root

    def _fill(
        self, directory: Directory, entries: Mapping[str, Any], extension: _Extension | None
    ) -> None:
        is_innermost = True
        for name, entry in entries.items():
            if entry["type"] == "directory":
                is_innermost = False
                self._fill(directory.add_directory(name), entry["contents"], extension)
            elif entry["type"] == "file":
                content = snapshot(entry["content"], {})
                directory.add_file(
                    name, content if extension is None else extension.lengthened(name, content)
                )
        if is_innermost and extension is not None:
            directory.add_files(extension.file_names)

    def _file(self, name: Any) -> File | None:
        """Return the current directory's file with that name, None for a directory or no entry."""
        if name not in self._current_dir.contents:
            return None
        item = self._current_dir.contents[name]
        return item if isinstance(item, File) else None

    def _navigate(self, path: Any) -> Directory | dict[str, str]:
        """Return the directory at a path, or BFCL's error as `cd` words it.

        ".." is not understood.
        """
        if path is None or path == ".":
            return self._current_dir
        if path == "/":
            return self.root
        directory = self.root if path.startswith("/") else self._current_dir
        for part in path.strip("/").split("/"):
            item = directory.get_item(part)
            if not isinstance(item, Directory):
                return {"error": f"cd: '{path}': No such file or directory"}
            directory = item
        return directory

    def pwd(self) -> dict[str, Any]:
        """Return the path of the current directory."""
        names = []
        directory: Directory | None = self._current_dir
        while directory is not None:
            names.append(directory.name)
            directory = directory.parent
        return {"current_working_directory": "/" + "/".join(reversed(names))}

    def ls(self, a: Any = False) -> dict[str, Any]:
        """List the current directory; hidden names only on demand."""
        names = list(self._current_dir.contents)
        return {
            "current_directory_content": names
            if a
            else [name for name in names if not name.startswith(".")]
        }

    def cd(self, folder: Any) -> dict[str, Any]:
        """Change the directory, one level up or down or to the root; return its name."""
        folder = folder.rstrip("/") or "/"
        if folder == "..":
            if self._current_dir.parent is None:
                return {"error": "Current directory is already the root. Cannot go back."}
            self._current_dir = self._current_dir.parent
            return {}
        if folder != "/" and "/" in folder:
            return {
                "error": f"cd: {folder}: Unsupported path. Only one folder level at a time is "
                "supported."
            }
        target = self._navigate(folder)
        if isinstance(target, dict):
            return target
        self._current_dir = target
        return {"current_working_directory": target.name}

    def mkdir(self, dir_name: Any) -> dict[str, Any] | None:
        """Make a directory in the current one.

        None on success.
        """
        if not _is_valid_name(dir_name):
            return {"error": f"mkdir: cannot create directory '{dir_name}': Invalid character"}
        if dir_name in self._current_dir.contents:
            return {"error": f"mkdir: cannot create directory '{dir_name}': File exists"}
        self._current_dir.add_directory(dir_name)
        return None

    def touch(self, file_name: Any) -> dict[str, Any] | None:
        """Make an empty file in the current directory.

        None on success, an error if the name is taken.
        """
        if not _is_valid_name(file_name):
            return {"error": f"touch: cannot touch '{file_name}': Invalid character"}
        if file_name in self._current_dir.contents:
            return {"error": f"touch: cannot touch '{file_name}': File exists"}
        self._current_dir.add_file(file_name)
        return None

    def echo(self, content: Any, file_name: Any = None) -> dict[str, Any] | None:
        """Display a text, or write it into an existing file.

        None where it is written.
        """
        if file_name is None:
            return {"terminal_output": content}
        if not _is_valid_name(file_name):
            return {"error": f"echo: cannot write to '{file_name}': Invalid character"}
        if not file_name:
            return {"terminal_output": content}
        if file_name not in self._current_dir.contents:
            return {"error": f"echo: cannot write to '{file_name}': No such file"}
        # A directory raises, as in BFCL.
        cast(File, self._current_dir.contents[file_name])._write(content)
        return None

    def cat(self, file_name: Any) -> dict[str, Any]:
        """Return a file's content."""
        if not _is_valid_name(file_name):
            return {"error": f"cat: '{file_name}': Invalid character"}
        if file_name not in self._current_dir.contents:
            return {"error": f"cat: '{file_name}': No such file or directory"}
        item = self._current_dir.contents[file_name]
        if not isinstance(item, File):
            return {"error": f"cat: '{file_name}': Is a directory"}
        return {"file_content": item.content}

    def find(self, path: Any = ".", name: Any = None) -> dict[str, Any]:
        """Return the paths below a path with `name` in their last name, parents first."""
        target = self._navigate(path)
        if isinstance(target, dict):
            return {"error": "find:" + target["error"].removeprefix("cd:")}
        matches = []
        for visited, (item_path, item_name) in enumerate(_walk(target, path.rstrip("/"), set())):
            if visited >= MAX_FOUND:
                raise ValueError(f"find: more than {MAX_FOUND} entries")
            if name is None or name in item_name:
                matches.append(item_path)
        return {"matches": matches}

    def wc(self, file_name: Any, mode: Any = "l") -> dict[str, Any]:
        """Count the lines, words or characters of a file."""
        if mode not in list(_TABLE["wc_modes"]):
            return {"error": f"wc: invalid mode '{mode}'"}
        file = self._file(file_name)
        if file is None:
            return {"error": f"wc: {file_name}: No such file or directory"}
        if mode == "l":
            count = len(file.content.splitlines())
        else:
            count = len(file.content.split() if mode == "w" else file.content)
        return {"count": count, "type": _TABLE["wc_modes"][mode]}

    def sort(self, file_name: Any) -> dict[str, Any]:
        """Return a file's lines sorted by code point; the file is not changed."""
        file = self._file(file_name)
        if file is None:
            return {"error": f"sort: {file_name}: No such file or directory"}
        return {"sorted_content": "\n".join(sorted(file.content.splitlines()))}

    def grep(self, file_name: Any, pattern: Any) -> dict[str, Any]:
        """Return a file's lines that contain the pattern as a plain substring."""
        file = self._file(file_name)
        if file is None:
            return {"error": f"grep: {file_name}: No such file or directory"}
        return {"matching_lines": [line for line in file.content.splitlines() if pattern in line]}

    def du(self, human_readable: Any = False) -> dict[str, Any]:
        """Return the disk usage: UTF-8 bytes of all files below the current directory.

        Shared files count each time.
        """
        size: float = _total_bytes(self._current_dir, {})
        if not human_readable:
            return {"disk_usage": f"{size} bytes"}
        for unit in _TABLE["du_units"]:
            if size < 1024:
                return {"disk_usage": f"{size:.2f} {unit}"}
            size /= 1024
        return {"disk_usage": f"{size:.2f} {_TABLE['du_overflow_unit']}"}

    def tail(self, file_name: Any, lines: Any = 10) -> dict[str, Any]:
        """Return a file's last lines; 0 means all, as Python slices with -0."""
        file = self._file(file_name)
        if file is None:
            return {"error": f"tail: {file_name}: No such file or directory"}
        all_lines = file.content.splitlines()
        if lines > len(all_lines):
            lines = len(all_lines)
        return {"last_lines": "\n".join(all_lines[-lines:])}

    def diff(self, file_name1: Any, file_name2: Any) -> dict[str, Any]:
        """Return the differing lines of two files, up to the end of the shorter one."""
        first, second = self._file(file_name1), self._file(file_name2)
        if first is None or second is None:
            return {"error": f"diff: {file_name1} or {file_name2}: No such file or directory"}
        pairs = zip(first.content.splitlines(), second.content.splitlines(), strict=False)
        return {
            "diff_lines": "\n".join(
                f"- {first}\n+ {second}" for first, second in pairs if first != second
            )
        }

    def mv(self, source: Any, destination: Any) -> dict[str, Any]:
        """Move or rename a file or directory.

        A moved directory shares its contents with the old one.
        """
        target = self._destination("mv", "move", source, destination)
        if isinstance(target, dict):
            return target
        folder, name, path = target
        if path != name and name in folder.contents:
            return {"error": f"mv: cannot move '{source}' to '{path}': File exists"}
        item = self._current_dir.contents.pop(source)
        if isinstance(item, File):
            folder.add_file(name, item.content)
        else:
            folder.add_directory(name).contents = item.contents
        return {"result": f"'{source}' moved to '{path}'"}

    def _destination(
        self, command: str, verb: str, source: Any, destination: Any
    ) -> tuple[Directory, Any, Any] | dict[str, Any]:
        """Return directory, name and path that an entry is moved or copied to, or an error.

        The path is the name itself unless the destination is a directory.
        """
        current = self._current_dir
        if source not in current.contents:
            return {"error": f"{command}: cannot {verb} '{source}': No such file or directory"}
        if "/" in destination:
            return {
                "error": f"{command}: path not allowed in destination. Provide only a file or "
                "directory name."
            }
        target = current.get_item(destination)
        if isinstance(target, File):
            error = f"{command}: cannot {verb} '{source}' to '{destination}': Not a directory"
            return {"error": error}
        if isinstance(target, Directory):
            return target, source, f"{destination}/{source}"
        return current, destination, destination

    def rm(self, file_name: Any) -> dict[str, Any]:
        """Remove a file or a whole directory."""
        if file_name not in self._current_dir.contents:
            return {"error": f"rm: cannot remove '{file_name}': No such file or directory"}
        del self._current_dir.contents[file_name]
        return {"result": f"'{file_name}' removed"}

    def rmdir(self, dir_name: Any) -> dict[str, Any]:
        """Remove an empty directory."""
        if dir_name not in self._current_dir.contents:
            return {"error": f"rmdir: cannot remove '{dir_name}': No such file or directory"}
        item = self._current_dir.contents[dir_name]
        if not isinstance(item, Directory):
            return {"error": f"rmdir: cannot remove '{dir_name}': Not a directory"}
        if item.contents:
            return {"error": f"rmdir: cannot remove '{dir_name}': Directory not empty"}
        del self._current_dir.contents[dir_name]
        return {"result": f"'{dir_name}' removed"}

    def cp(self, source: Any, destination: Any) -> dict[str, Any]:
        """Copy a file or directory.

        A copied directory has a table of its own whose entries are the old objects.
        """
        target = self._destination("cp", "copy", source, destination)
        if isinstance(target, dict):
            return target
        folder, name, path = target
        # BFCL looks for the whole path: a real clash raises when it is added
        if path != name and path in folder.contents:
            return {"error": f"cp: cannot copy '{source}' to '{path}': File exists"}
        item = self._current_dir.contents[source]
        if isinstance(item, File):
            folder.add_file(name, item.content)
        else:
            added = folder.add_directory(name)
            # after the addition: a directory copied into itself holds itself
            added.contents = item.contents.copy()
        return {"result": f"'{source}' copied to '{path}'"}


class _Extension:
    """Files that long context adds to a loaded tree.

    A tail to most files, empty files to innermost directories.
    """

    def __init__(self) -> None:
        self.file_names: list[str] = long_context_table("POPULATE_FILE_EXTENSION")
        self._spared = frozenset(long_context_table("FILES_TAIL_USED"))
        self._tail: str = long_context_table("FILE_CONTENT_EXTENSION")

    def lengthened(self, name: str, content: Any) -> Any:
        """Return the content with the tail appended, unless the file's name is spared."""
        return content if name in self._spared else content + self._tail


def _walk(directory: Directory, path: str, open_tables: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield (path, name) of all items below, parents first; raises RecursionError in a cycle."""
    if id(directory.contents) in open_tables:
        raise RecursionError(_CYCLE)
    open_tables.add(id(directory.contents))
    for name, item in directory.contents.items():
        item_path = f"{path}/{name}"
        yield item_path, name
        if isinstance(item, Directory):
            yield from _walk(item, item_path, open_tables)
    open_tables.remove(id(directory.contents))


def _total_bytes(directory: Directory, sizes: dict[int, int | None]) -> int:
    """Return the size in bytes of all files below.

    `sizes` remembers each table of contents, None while it is being summed.
    """
    key = id(directory.contents)
    if key in sizes:
        size = sizes[key]
        if size is None:
            raise RecursionError(_CYCLE)
        return size
    sizes[key], total = None, 0
    for item in directory.contents.values():
        total += (
            _total_bytes(item, sizes)
            if isinstance(item, Directory)
            else len(item.content.encode("utf-8"))
        )
    sizes[key] = total
    return total
