"""Token files: what is written is read back, half a file is never seen, a broken one is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_token_files import sample_header, sample_token_file

from fctncalling.data.token_file import (
    TokenFile,
    TokenFileError,
    read_token_file,
    token_file_path,
    write_token_file,
)


def write_arrays(path: Path, **changes: Any) -> Path:
    """Write the sample's arrays with some replaced, past the writer; None leaves one out."""
    contents = sample_token_file()
    arrays = {each.name: getattr(contents, each.name) for each in fields(contents)} | changes
    arrays["header"] = np.array(json.dumps(arrays["header"]))
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def assert_equal(found: TokenFile, expected: TokenFile) -> None:
    for each in fields(TokenFile):
        if each.name != "header":
            array, wanted = getattr(found, each.name), getattr(expected, each.name)
            np.testing.assert_array_equal(array, wanted, err_msg=each.name)
            assert array.dtype == wanted.dtype, each.name
    without = {"fields": None}
    assert found.header | without == expected.header | without


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path, contents = token_file_path(tmp_path, 12), sample_token_file()
    write_token_file(path, contents)
    found = read_token_file(path)
    assert_equal(found, contents)
    assert path == tmp_path / "tokens" / "update_000012.npz"
    assert [path.name for path in path.parent.iterdir()] == [path.name]
    assert found.text_of_id[3] == " piece3"
    assert found.texts[3:6] == [" piece3", "  piece4", " piece5"]
    assert found.rows(1) == [slice(6, 10)]


def test_arrays_without_a_number_are_left_out_and_read_as_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_token_file(path, sample_token_file())
    with np.load(path) as file:
        assert {"kl", "ref_logprobs"}.isdisjoint(file.files)
        assert set(read_token_file(path).header["fields"]) == set(file.files) - {"header"}
    assert np.isnan(read_token_file(path).kl).all()


def test_a_failed_write_leaves_the_old_file_and_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    write_token_file(path, sample_token_file(1))

    def fill_disk(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fill_disk)
    with pytest.raises(OSError, match="No space"):
        write_token_file(path, sample_token_file(2))
    assert read_token_file(path).header["update"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"header": None}, "no field header"),
        ({"ids": None}, "no field ids"),
        ({"values": np.zeros(4, np.float32)}, "field values has 4 entries, expected 13"),
        ({"acted": np.zeros(13)}, "field acted is float64"),
        ({"row_offsets": np.array([0, 6, 5, 13])}, "field row_offsets does not rise"),
        ({"row_offsets": np.array([0, 6, 10, 12])}, "field row_offsets does not rise"),
        ({"row_episode": np.array([0, 1, 3], np.int32)}, "field row_episode names an episode"),
        ({"header": sample_header(schema_version=2)}, "header.schema_version is 2"),
        ({"header": sample_header(gamma="0.95")}, "field header.gamma is '0.95', expected int"),
        ({"header": sample_header(update=True)}, "field header.update is True"),
        ({"header": sample_header(episodes=[{}])}, r"header\.episodes\[0\]\.episode_id"),
    ],
)
def test_a_broken_file_is_named_with_its_field(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    if changes.get("header", ...) is None:  # an array, but no header
        np.savez(tmp_path / "broken.npz", ids=np.zeros(3))
    else:
        write_arrays(tmp_path / "broken.npz", **changes)
    with pytest.raises(TokenFileError, match=rf"broken\.npz: .*{message}"):
        read_token_file(tmp_path / "broken.npz")


def test_the_unbroken_arrays_pass_the_same_check(tmp_path: Path) -> None:
    assert_equal(read_token_file(write_arrays(tmp_path / "a.npz")), sample_token_file())


def test_no_prefix_of_a_file_is_taken_for_one(tmp_path: Path) -> None:
    whole, cut = tmp_path / "a.npz", tmp_path / "cut.npz"
    write_token_file(whole, sample_token_file())
    content = whole.read_bytes()
    for length in range(0, len(content), 199):
        cut.write_bytes(content[:length])
        with pytest.raises(TokenFileError, match=r"cut\.npz"):
            read_token_file(cut)
    with pytest.raises(TokenFileError, match=r"none\.npz"):
        read_token_file(tmp_path / "none.npz")


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "a.npz")
    content = path.read_bytes()
    place = content.index(b"returns.npy") + 200
    path.write_bytes(content[:place] + b"\xff" * 8 + content[place + 8 :])
    with pytest.raises(TokenFileError, match="field returns is broken"):
        read_token_file(path)


def test_reading_imports_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_token_file(path, sample_token_file())
    code = (
        "import sys; from fctncalling.data.token_file import read_token_file; "
        f"read_token_file({str(path)!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
