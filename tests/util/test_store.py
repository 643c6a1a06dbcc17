"""Records, archives and rows are refused when they differ from what was written."""

import json
import math
import os
import pathlib
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

from jaxgadget.util import store
from jaxgadget.util.store import (
    CHECKSUM,
    Archive,
    DamagedError,
    ForeignError,
    Format,
    Rows,
    checksum,
    read_archive,
    read_header,
    read_record,
    write_archive,
    write_record,
)

ROOT = pathlib.Path(__file__).parents[2]
THINGS = Format(
    name="jaxgadget things",
    version=3,
    noun="file of things",
    remedy="delete it",
    older=(2,),
    unsealed=(2,),
    releases={1: "jaxgadget 0.1"},
)
RECORD = {"name": "κ", "numbers": [1, 2.5, None, True], "inside": {"b": 1e-300, "a": "text"}}
ARRAYS = {
    "floats": np.linspace(0, 1, 7).reshape(7, 1),
    "names": np.array(["a", "bc"]),
    "none": np.zeros((0, 3)),
}


def read(path: pathlib.Path) -> Archive:
    archive = read_archive(path, THINGS)
    assert archive is not None
    return archive


def stored(path: pathlib.Path) -> dict[str, Any]:
    """All arrays of an archive, including its header."""
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_record_is_read_back(tmp_path: pathlib.Path):
    path = tmp_path / "record.json"
    assert read_record(path, THINGS) is None
    write_record(path, THINGS, RECORD)
    assert read_record(path, THINGS) == RECORD
    written = json.loads(path.read_text())
    assert written["format"] == "jaxgadget things" and written["version"] == 3
    assert written.pop(CHECKSUM) == checksum(written)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"format": "jaxgadget others", "version": 3},
            "is 'jaxgadget others' version 3; expected 'jaxgadget",
        ),
        ({"format": "jaxgadget things", "version": 1}, "version 1, written by jaxgadget 0.1; this release"),
        ({"format": "jaxgadget things 1"}, "version 1, written by jaxgadget 0.1; this release"),
        (
            {"format": "jaxgadget things", "version": 4, "written_by": "jaxgadget 9.0"},
            "version 4, written by jaxgadget 9.0; this release reads version 3",
        ),
        ({"name": "x"}, "names no format"),
    ],
)
def test_another_format_or_version_is_refused(tmp_path: pathlib.Path, record: dict[str, Any], said: str):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ForeignError, match=rf"things '.*record\.json' .*{said}.*: choose another file"):
        read_record(path, THINGS)


def test_only_records_of_release_0_2_may_lack_a_checksum(tmp_path: pathlib.Path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"format": "jaxgadget things", "version": 2, **RECORD}))
    assert read_record(path, THINGS) == RECORD
    for more in ({"version": 3}, {"version": 2, "written_by": "jaxgadget 0.5"}):
        path.write_text(json.dumps({"format": "jaxgadget things", **more, **RECORD}))
        with pytest.raises(DamagedError, match="it has no checksum"):
            read_record(path, THINGS)
    write_archive(tmp_path / "a.npz", THINGS, RECORD, ARRAYS)
    arrays = stored(tmp_path / "a.npz")
    header = json.loads(str(arrays["header"]))
    del header[CHECKSUM]
    np.savez(tmp_path / "a.npz", **{**arrays, "header": np.asarray(json.dumps(header))})
    with pytest.raises(DamagedError, match="it has no checksum"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "", "it is empty"),
        (lambda text: text[: len(text) // 2], "it is invalid or truncated JSON"),
        (lambda text: "[1]", "it holds no JSON object"),
        (lambda text: "[" * 100_000, "RecursionError"),
        (lambda text: text.replace("κ", "\udcff"), "checksum|surrogate|decode"),
        (lambda text: text.replace("2.5", "2.6"), "checksum"),
        (lambda text: text.replace("true", "1"), "its checksum does not match its content"),
        (lambda text: text.replace(f'"{CHECKSUM}": "', f'"{CHECKSUM}": "0'), "its checksum does not match"),
    ],
    ids=["empty", "half", "list", "deep", "bytes", "number", "type", "checksum"],
)
def test_a_damaged_record_is_named_with_the_remedy(tmp_path: pathlib.Path, change: Any, said: str):
    path = tmp_path / "record.json"
    write_record(path, THINGS, RECORD)
    path.write_bytes(change(path.read_text()).encode(errors="surrogateescape"))
    with pytest.raises(DamagedError, match=rf"record\.json' is damaged: .*({said}).*; delete it$"):
        read_record(path, THINGS)


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_is_read_back(tmp_path: pathlib.Path, compress: bool):
    path = tmp_path / "archive.npz"
    assert read_archive(path, THINGS) is None
    write_archive(path, THINGS, RECORD, ARRAYS, compress=compress)
    header, arrays = read(path)
    assert header == read_header(path, THINGS) == RECORD and list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"floats": ARRAYS["floats"] + 1e-16},
        {"floats": ARRAYS["floats"].T},
        {"floats": ARRAYS["floats"][::-1]},
        {"names": np.array(["b", "ac"])},
        {"more": np.zeros(1)},
    ],
)
def test_an_archive_whose_arrays_were_changed(tmp_path: pathlib.Path, changes: dict[str, Any]):
    path = tmp_path / "archive.npz"
    write_archive(path, THINGS, RECORD, ARRAYS)
    np.savez(path, **{**stored(path), **changes})
    with pytest.raises(DamagedError, match="its checksum does not match its content"):
        read(path)


def test_other_files_and_damaged_archives_are_distinguished(tmp_path: pathlib.Path):
    path = tmp_path / "archive.npz"
    write_archive(path, THINGS, RECORD, ARRAYS)
    whole = path.read_bytes()
    for content in (b"", b"text", np.ones(3).tobytes()):
        path.write_bytes(content)
        with pytest.raises(ForeignError, match=r"archive\.npz' is not a NumPy archive"):
            read(path)
    for header in ({}, {"header": np.asarray("[3]")}):
        np.savez(path, values=np.ones(3), **header)
        with pytest.raises(ForeignError, match=r"archive\.npz' .* has no JSON object 'header'"):
            read(path)
    directory = whole.rindex(b"header.npy")
    renamed = whole[:directory] + b"heater.npy" + whole[directory + 10 :]
    for content in (whole[: len(whole) // 2], b"XX" + whole[2:], whole[:-30], renamed):
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=r"archive\.npz' is damaged: .*; delete it$"):
            read(path)


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("header.npy", "w") as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    assert os.path.getsize(path) < 1 << 20
    monkeypatch.setattr("numpy.load", lambda *args, **more: pytest.fail("unpacked"))
    with pytest.raises(DamagedError, match=r"bytes would unpack to 314,572,800, more than 100 times as many"):
        read(path)


def test_an_array_that_claims_more_numbers_than_it_has(tmp_path: pathlib.Path):
    """NumPy would allocate the claimed size before reading."""
    path = tmp_path / "claims.npz"
    write_archive(path, THINGS, RECORD, {"numbers": np.zeros(10)})
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    with zipfile.ZipFile(path) as archive:
        header = archive.read("header.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", header)
        with archive.open("numbers.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, shape)  # pyright: ignore[reportArgumentType]
            file.write(bytes(80))
    with pytest.raises(
        DamagedError, match=r"claims\.npz' is damaged: its array 'numbers\.npy' claims 8,000,0"
    ):
        read(path)


def test_an_archive_that_does_not_fit_in_memory_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    def no_room(*args: Any, **more: Any) -> None:
        raise MemoryError

    path = tmp_path / "archive.npz"
    write_archive(path, THINGS, RECORD, ARRAYS)
    monkeypatch.setattr("numpy.load", no_room)
    with pytest.raises(MemoryError, match=r"things '.*archive\.npz' cannot be read: no memory is left"):
        read(path)


def test_large_archives_are_not_packed_so_that_they_can_be_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """However compressible the numbers are, the stored file remains readable."""
    monkeypatch.setattr(store, "LARGE_BYTES", 10_000)
    path = tmp_path / "large.npz"
    write_archive(path, THINGS, RECORD, {"zeros": np.zeros(100_000)}, compress=True)
    assert read(path).arrays["zeros"].shape == (100_000,)
    np.savez_compressed(path, header=np.asarray("{}"), zeros=np.zeros(100_000))
    with pytest.raises(DamagedError, match="would unpack"):
        read(path)


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({}, {"a": np.zeros(1250)}),  # 10,000 bytes, and what describes them
        ({}, {"a": np.zeros(1200)}),
        ({}, {"a": np.zeros(640)}),
        ({}, {"a": np.zeros(600)}),
        ({"text": "x" * 2400}, {}),  # four bytes a letter
        ({"text": "x" * 20_000}, {"a": np.zeros(3)}),
        ({}, {f"a{number}": np.zeros(0) for number in range(100)}),
    ],
)
def test_every_written_archive_can_be_read(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    header: dict[str, str],
    arrays: dict[str, np.ndarray],
):
    """The reader's limit includes the record and the headers of arrays."""
    monkeypatch.setattr(store, "LARGE_BYTES", 10_000)
    monkeypatch.setattr(store, "MAX_PACKING", 2)
    path = tmp_path / "archive.npz"
    write_archive(path, THINGS, header, arrays, compress=True)
    header_read, arrays_read = read(path)
    assert header_read == header and list(arrays_read) == list(arrays)


# --- rows ---------------------------------------------------------------------------------

ROW = {"ev": [1.5, -2.0], "gap": math.nan, "name": "κ", "inside": [{"a": None}], "count": np.int64(3)}


def test_rows_come_back_with_nan(tmp_path: pathlib.Path):
    rows = Rows(tmp_path / "rows.jsonl", THINGS)
    assert rows.read() == {}
    rows.add({"a": ROW})
    (row,) = rows.read().values()
    assert math.isnan(row.pop("gap")) and math.isnan(row.pop("inside")[0]["a"])
    assert row == {"ev": [1.5, -2.0], "name": "κ", "count": 3}
    assert json.loads(rows.path.read_text())["gap"] is None


def test_rows_of_several_processes_are_merged(tmp_path: pathlib.Path):
    path = tmp_path / "rows.jsonl"
    script = (
        "import sys, pathlib\n"
        "from tests.util.test_store import THINGS\n"
        "from jaxgadget.util.store import Rows\n"
        "for k in range(20): Rows(pathlib.Path(sys.argv[1]), THINGS).add({f'{sys.argv[2]}-{k}': {'k': k}})"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", script, str(path)]
    processes = [subprocess.Popen([*command, name], env=environment, cwd=ROOT) for name in "abc"]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(Rows(path, THINGS).read()) == 60


def test_no_change_of_a_row_is_silent(tmp_path: pathlib.Path):
    """Every single byte; JSON errors name the line, too."""
    rows = Rows(tmp_path / "rows.jsonl", THINGS)
    rows.add({"a": {"ev": 12.5}, "b": {"ev": 3.5}})
    whole, expected = rows.path.read_bytes(), rows.read()
    for place in range(len(whole) - 1):  # the end of the last line is tested below
        for byte in (whole[place] ^ 1, ord("9"), ord(" ")):
            rows.path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                found = rows.read()
            except ValueError as error:
                assert "rows.jsonl" in str(error) and "line " in str(error) and "; " in str(error)
            else:
                assert found == expected, (place, byte)


def test_a_last_line_that_is_cut_off_loses_no_other(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture):
    rows = Rows(tmp_path / "rows.jsonl", THINGS)
    rows.add({"a": {"ev": 12.5}, "b": {"ev": 3.5}})
    whole, found = rows.path.read_bytes(), rows.read()
    for place in range(len(whole)):
        rows.path.write_bytes(whole[:place])
        lines = (whole[:place] + b"\n").count(b"}\n")
        assert rows.read() == {key: found[key] for key in list(found)[:lines]}
    rows.path.write_bytes(whole[:-9])
    assert rows.read() == {"a": {"ev": 12.5}}
    assert "line 1 is truncated" in caplog.text and "line 2 is truncated" in caplog.text
    assert rows.add({"c": {"ev": 1.0}}).keys() == {"a", "c"} == rows.read().keys()


def test_other_files_are_left_as_they_are(tmp_path: pathlib.Path):
    path = tmp_path / "notes.txt"
    for text in ("mine\n", "mine", '{"key": 3', '{"key": 3}\n', "[]\n"):
        path.write_text(text)
        with pytest.raises(ForeignError, match=r"notes\.txt', line 1, is not a result of this command"):
            Rows(path, THINGS).add({"a": {}})
        assert path.read_text() == text
