"""Records and archives say when they are not as they were written."""

import json
import os
import pathlib
import zipfile

import numpy as np
import pytest

from jaxgadget.util import sealed
from jaxgadget.util.sealed import (
    CHECKSUM,
    DamagedError,
    ForeignError,
    checksum,
    read_archive,
    read_header,
    read_record,
    seal,
    unseal,
    write_archive,
    write_record,
)

RECORD = {"name": "κ", "numbers": [1, 2.5, None, True], "inside": {"b": 1e-300, "a": "text"}}
ARRAYS = {
    "floats": np.linspace(0, 1, 7).reshape(7, 1),
    "names": np.array(["a", "bc"]),
    "none": np.zeros((0, 3)),
}


def test_a_record_comes_back(tmp_path: pathlib.Path):
    path = tmp_path / "record.json"
    assert read_record(path, "delete it") is None
    write_record(path, RECORD)
    assert read_record(path, "delete it") == RECORD
    assert json.loads(path.read_text()) == {**RECORD, CHECKSUM: checksum(RECORD)}


def test_a_record_without_a_checksum_is_of_an_older_version(tmp_path: pathlib.Path):
    (tmp_path / "old.json").write_text(json.dumps(RECORD))
    assert read_record(tmp_path / "old.json", "delete it") == RECORD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ('{"name": "κ", "numbers": [1, 2', "it is no JSON, or only a part of it"),
        ("[1]", "it holds no JSON object"),
        ("[" * 100_000, "RecursionError"),
        ('{"a": "\udcff"}', "checksum|surrogate|decode"),
        ('{"a": 1, "checksum": 3}', "its checksum is not that of its content"),
        (json.dumps(seal(RECORD)).replace("2.5", "2.6"), "its checksum is not that of its content"),
        (json.dumps(seal(RECORD)).replace("true", "1"), "its checksum is not that of its content"),
    ],
)
def test_a_damaged_record_is_named_with_the_remedy(tmp_path: pathlib.Path, text: str, said: str):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DamagedError, match=rf"record\.json' is damaged: .*({said}).*; delete it$"):
        read_record(path, "delete it")


def test_a_folder_is_no_record(tmp_path: pathlib.Path):
    with pytest.raises(ValueError, match=r"cannot be read: .*; delete it$"):
        read_record(tmp_path, "delete it")


def test_a_checksum_is_of_record_and_arrays():
    sealed_record = seal(RECORD, ARRAYS)
    assert unseal(sealed_record, ARRAYS) == RECORD
    others = [
        {**ARRAYS, "floats": ARRAYS["floats"] + 1e-16},
        {**ARRAYS, "floats": ARRAYS["floats"].T},
        {**ARRAYS, "names": np.array(["b", "ac"])},
        {"floats": ARRAYS["floats"], "names": ARRAYS["names"]},
        {"flouts": ARRAYS["floats"], "names": ARRAYS["names"], "none": ARRAYS["none"]},
        {},
    ]
    for arrays in others:
        with pytest.raises(DamagedError, match="its checksum is not that of its content"):
            unseal(sealed_record, arrays)


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_comes_back(tmp_path: pathlib.Path, compress: bool):
    path = tmp_path / "archive.npz"
    write_archive(path, RECORD, ARRAYS, compress=compress)
    header, arrays = read_archive(path)
    assert header == read_header(path) == RECORD and list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_what_is_no_archive_and_what_is_a_damaged_one_are_told_apart(tmp_path: pathlib.Path):
    path = tmp_path / "archive.npz"
    write_archive(path, RECORD, ARRAYS)
    whole = path.read_bytes()
    for content in (b"", b"text", np.ones(3).tobytes()):
        path.write_bytes(content)
        with pytest.raises(ForeignError):
            read_archive(path)
    np.savez(path, values=np.ones(3))
    with pytest.raises(ForeignError, match="it has no 'header'"):
        read_archive(path)
    np.savez(path, header=np.asarray("[3]"))
    with pytest.raises(ForeignError, match="no JSON object"):
        read_archive(path)
    directory = whole.rindex(b"header.npy")
    renamed = whole[:directory] + b"heater.npy" + whole[directory + 10 :]
    for content in (whole[: len(whole) // 2], b"XX" + whole[2:], whole[:-30], renamed):
        path.write_bytes(content)
        with pytest.raises(DamagedError):
            read_archive(path)
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "nothing.npz")


def test_an_archive_whose_arrays_were_exchanged(tmp_path: pathlib.Path):
    path = tmp_path / "archive.npz"
    write_archive(path, RECORD, ARRAYS)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(path, **{**arrays, "floats": arrays["floats"][::-1]})
    with pytest.raises(DamagedError, match="its checksum is not that of its content"):
        read_archive(path)
    header = json.dumps(RECORD)  # as versions up to 0.2 wrote it
    np.savez(path, **{**arrays, "header": np.asarray(header)})
    assert read_archive(path)[0] == RECORD


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
        read_archive(path)


def test_large_archives_are_not_packed_so_that_they_can_be_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """However alike their numbers are: nothing that was written is refused."""
    monkeypatch.setattr(sealed, "LARGE_BYTES", 10_000)
    path = tmp_path / "large.npz"
    write_archive(path, RECORD, {"zeros": np.zeros(100_000)}, compress=True)
    assert read_archive(path)[1]["zeros"].shape == (100_000,)
    np.savez_compressed(path, header=np.asarray("{}"), zeros=np.zeros(100_000))
    with pytest.raises(DamagedError, match="would unpack"):
        read_archive(path)


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
def test_whatever_was_written_can_be_read(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    header: dict[str, str],
    arrays: dict[str, np.ndarray],
):
    """The reader counts the record, and what describes each array, too."""
    monkeypatch.setattr(sealed, "LARGE_BYTES", 10_000)
    monkeypatch.setattr(sealed, "MOST_PACKED", 2)
    path = tmp_path / "archive.npz"
    write_archive(path, header, arrays, compress=True)
    header_read, arrays_read = read_archive(path)
    assert header_read == header and list(arrays_read) == list(arrays)


def test_small_archives_are_packed(tmp_path: pathlib.Path):
    write_archive(tmp_path / "archive.npz", {}, {"a": np.zeros(100_000)}, compress=True)
    assert os.path.getsize(tmp_path / "archive.npz") < 10_000
