import gzip
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hf_structure.text.conllu import read_conllu, write_conllu
from hf_structure.text.files import (
    COMPRESSIONS,
    DataError,
    bytes_read,
    new_file,
    open_input,
    open_output,
    partial_path,
    plain_path,
    writing_to,
)
from hf_structure.text.formats import guess_format, load_sentences
from hf_structure.text.words import numbered_lines, read_text

# Packed, more than gzip reads at once.
LINES = [f"the dog saw {number * 2**31 % 1_000_003} cats\n" for number in range(50_000)]
CONTENT = "".join(LINES).encode()
UNPACK = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2"}


@pytest.fixture(params=COMPRESSIONS)
def packed(request, tmp_path):
    """A compressed file of `CONTENT` in two pieces, as a joined one has them."""
    path = tmp_path / f"text.txt{request.param}"
    half, compress = len(CONTENT) // 2, COMPRESSIONS[request.param].compress
    path.write_bytes(compress(CONTENT[:half]) + compress(CONTENT[half:]))
    return path


def test_reads_what_other_tools_read(packed):
    unpacked = subprocess.run([UNPACK[packed.suffix], "-dc", str(packed)], capture_output=True, check=True).stdout
    with open_input(packed) as file:
        assert file.peek().startswith(b"the dog")
        assert file.read() == unpacked == CONTENT
    assert file.closed
    assert [f"{line}\n" for _, line in numbered_lines(packed)] == LINES
    assert sum(1 for _ in read_text(str(packed))) == len(LINES)


def test_writes_what_it_reads(packed, tmp_path):
    with new_file(tmp_path / f"new{packed.suffix}") as file:
        file.writelines(LINES)
    with open_input(tmp_path / f"new{packed.suffix}") as file:
        assert file.read() == CONTENT
    sentences = list(read_conllu(["1\té\t_\t_\t_\t_\t0\troot\t_\t_\n"])) * 2
    path = tmp_path / f"a.conllu{packed.suffix}"
    assert write_conllu(sentences, path) == 2
    assert list(read_conllu(path)) == sentences
    assert [sentence["words"] for sentence in load_sentences(path)] == [["é"]] * 2
    assert not path.read_bytes().startswith(b"1\t")


@pytest.mark.parametrize("damage", ["cut", "cut at its head", "bytes", "text", "empty"])
def test_a_damaged_file_is_one_clear_error(packed, damage):
    content = packed.read_bytes()
    middle, flipped = len(content) // 2, bytes(byte ^ 255 for byte in content)
    changed = {
        "cut": content[:-7],
        "cut at its head": content[:3],
        "bytes": content[:middle] + flipped[middle : middle + 99] + content[middle + 99 :],
        "text": CONTENT,
        "empty": b"",
    }
    packed.write_bytes(changed[damage])
    with pytest.raises(DataError, match=rf"text\.txt\{packed.suffix}: no whole \{packed.suffix} file") as error:
        list(numbered_lines(packed))
    assert error.value.file == str(packed)
    assert "\n" not in str(error.value)


def test_padding_between_pieces(tmp_path):
    compress, path = COMPRESSIONS[".xz"].compress, tmp_path / "a.xz"
    path.write_bytes(compress(b"a\n") + bytes(1 << 18) + compress(b"b\n") + bytes(4))
    assert list(read_text(path)) == [["a"], ["b"]]


def test_new_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "folder" / "a.txt"
    with pytest.raises(ZeroDivisionError), new_file(path) as file:
        file.writelines(str(1 // number) for number in (1, 0))
    assert list(path.parent.iterdir()) == []
    with new_file(path) as file:
        file.write("whole")
    with pytest.raises(FileExistsError, match="--overwrite"), new_file(path):
        pass
    with new_file(path, overwrite=True) as file:
        file.write("again")
    assert path.read_text() == "again"
    assert list(path.parent.iterdir()) == [path]


def test_output_follows_links_and_keeps_modes(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with open_output(link) as file:
        file.write("new\n")
        assert path.read_text() == "old"
    assert (link.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (True, "new\n", 0o640)


def test_output_writes_to_devices_and_pipes(tmp_path):
    with open_output(os.devnull) as file:
        file.write("nothing")
    assert not Path(os.devnull).is_file()
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        with open_output(tmp_path / "pipe") as file:
            file.write("through")
        assert read.result() == "through"


@pytest.mark.parametrize("keep", [False, True])
def test_what_an_error_leaves(tmp_path, keep):
    with pytest.raises(ZeroDivisionError), open_output(tmp_path / "a.txt", keep=keep) as file:
        file.writelines(str(1 // number) for number in (1, 0))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == ({"a.txt.partial": "1"} if keep else {})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_errors_of_writing_name_the_file():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"), open_output("/dev/full") as file:
        file.write("something")


@pytest.mark.parametrize("write", [open_output, partial_path])
def test_errors_of_opening_name_the_file_and_a_missing_folder(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    message = rf"there is no folder {tmp_path}/nowhere: 'nowhere/a\.txt'"
    with pytest.raises(FileNotFoundError, match=message), write("nowhere/a.txt") as partial:
        partial.write_text("a")
    Path("a.txt.partial").mkdir()
    Path("link.txt").symlink_to("a.txt")
    for name in ("a.txt", "link.txt"):
        with pytest.raises(IsADirectoryError) as caught, write(name) as partial:
            partial.write_text("a")
        assert caught.value.filename == name


# Savers of libraries, with a limit on the size of files in place of a full disk. Prints what each of them raises.
SAVERS = """
import os, resource, signal, sys
import torch, safetensors.torch
from tokenizers import Tokenizer, models
from hf_structure.text.files import new_path, writing_to

def text(path):
    with open(path, "w") as file:
        file.write(9000 * "a")

def save(saver, path):
    with new_path(path) as partial:
        saver(str(partial))

weights, words = {"a": torch.zeros(9000)}, Tokenizer(models.WordLevel({str(i): i for i in range(999)}, unk_token="0"))
savers = [text, words.save, lambda p: torch.save(weights, p), lambda p: safetensors.torch.save_file(weights, p)]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # Python would keep compiled files that are cut short
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for number, saver in enumerate(savers):
    try:
        save(saver, f"{sys.argv[1]}/{number}")
    except OSError as error:
        print(os.path.basename(error.filename), error.strerror)
"""


def test_a_full_disk_has_one_error_whatever_writes(tmp_path):
    done = subprocess.run([sys.executable, "-c", SAVERS, str(tmp_path)], capture_output=True, text=True)
    reasons = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    too_large = "File too large"
    assert reasons == {"0": too_large, "1": too_large, "2": "No space left on device", "3": too_large}, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ValueError("(os error 2)"), OSError(2, "No such file"), RuntimeError("pos 3 vs 4")])
def test_other_errors_are_left_as_they_are(error):
    with pytest.raises(type(error)) as caught, writing_to("folder"):
        raise error
    assert caught.value is error


def test_errors_that_are_each_other_s_cause():
    """As when the cause of an error is raised again while that error is handled."""
    first, second = ValueError("first"), LookupError("second")
    first.__context__, second.__cause__ = second, first
    with pytest.raises(ValueError, match="first"), writing_to("folder"):
        raise first


def test_a_full_disk_under_an_error_of_another_kind():
    """As `datasets` has it."""
    error = LookupError("cannot make the data set")
    error.__cause__ = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space left on device: 'folder'"), writing_to("folder"):
        raise error


@pytest.mark.parametrize("keep", [False, True])
def test_what_an_error_leaves_of_a_compressed_file(tmp_path, keep):
    path = tmp_path / "a.txt.gz"
    with pytest.raises(ZeroDivisionError), open_output(path, keep=keep) as file:
        file.writelines(str(1 // number) for number in (1, 0))
    left = {path.name: gzip.decompress(path.read_bytes()) for path in tmp_path.iterdir()}
    assert left == ({"a.txt.gz.partial": b"1"} if keep else {})


# Newer Pythons report what fails when an object is discarded.
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_missing_file_stays_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_input(tmp_path / "none.gz")


def test_how_far_a_file_is_read(packed, tmp_path):
    (tmp_path / "plain.txt").write_bytes(CONTENT)
    for path in (packed, tmp_path / "plain.txt"):
        with open_input(path) as file:
            assert bytes_read(file) == 0
            file.readline()
            assert 0 < bytes_read(file) < path.stat().st_size
            file.read()
            assert bytes_read(file) == path.stat().st_size


def test_formats_are_seen_through_compression():
    assert guess_format("train.conllu.xz") == "conllu"
    assert guess_format("A.MRG.GZ") == "brackets"
    assert str(plain_path("a.b/c.txt.bz2")) == "a.b/c.txt"
    assert str(plain_path("a.gz/c.txt")) == "a.gz/c.txt"
    with pytest.raises(ValueError, match=r"x\.gz: the format is not clear"):
        guess_format("x.gz")
