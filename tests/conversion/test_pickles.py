"""Pickles are read without running what they name."""

import argparse
import collections
import contextlib
import os
import pickle
import zipfile
from pathlib import Path

import original_udgn
import pytest
import torch
from convert.checkpoint import read_checkpoint
from convert.pickles import StandIn, attributes, read_pickle
from convert.vocabularies import read_words
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


class Hostile:
    """What a pickle of it does when it is read as pickles are: it makes a file."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def attacks(mark):
    """Functions that make a file, called in the ways that a pickle can call."""
    made = f"open({str(mark)!r}, 'w').close()"
    yield Hostile(os.system, f"touch {mark}")
    yield Hostile(exec, made)
    yield Hostile(eval, made)
    yield Hostile(Path.touch, mark)
    yield Hostile(getattr, Hostile(__import__, "os"), "system")
    yield Hostile(torch.load, str(mark))
    yield Hostile(collections.OrderedDict, Hostile(exec, made))
    yield {"state_dict": {"a": Hostile(exec, made)}}
    yield [torch.nn.Linear(2, 2), Hostile(exec, made)]


OPCODES = {
    "inst": b"(S'touch %s'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'touch %s'\no.",
    "global": b"cos\nsystem\n(S'touch %s'\ntR.",
    "build": b"ccollections\nOrderedDict\n(S'a'\ncos\nsystem\ndb0cos\nsystem\n(S'touch %s'\ntR.",
    "newobj": b"\x80\x02cos\nsystem\nS'touch %s'\n\x85\x81.",
    "dotted": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c%c%s\x85R.",
}


def test_the_attacks_are_some(tmp_path):
    """That they would do something where they are run."""
    for number, attack in enumerate(attacks(tmp_path / "mark")):
        (tmp_path / "mark").unlink(missing_ok=True)
        if number in (0, 1, 2, 3, 6, 7, 8):
            with contextlib.suppress(TypeError):  # that comes afterwards
                pickle.loads(pickle.dumps(attack))
            assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("form", ["pickle", "zip", "old"])
def test_nothing_runs(form, number, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "file.pt"
    attack = list(attacks(mark))[number]
    if form == "pickle":
        path.write_bytes(pickle.dumps(attack))
    else:
        torch.save(attack, path, _use_new_zipfile_serialization=form == "zip")
    for read in (read_pickle, read_checkpoint, read_words):
        with contextlib.suppress(ValueError):
            read(path)
        assert not mark.exists()


@pytest.mark.parametrize("name", OPCODES)
def test_no_opcode_runs_anything(name, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "file.pkl"
    command = b"touch " + os.fsencode(mark)
    path.write_bytes(OPCODES[name] % ((len(command), command) if name == "dotted" else (os.fsencode(mark),)))
    with contextlib.suppress(ValueError):
        read_pickle(path)
    assert not mark.exists()


def test_what_is_changed_does_not_stay_changed(tmp_path):
    """A pickle may set attributes of what it names; the next one finds it as it was."""
    rebuild = b"ctorch._utils\n_rebuild_parameter\n"
    (tmp_path / "a.pkl").write_bytes(
        b"\x80\x02" + rebuild + b"}U\x0c__defaults__K\x01\x85s\x86b.".replace(b"}", b"N}")
    )
    read_pickle(tmp_path / "a.pkl")
    (tmp_path / "b.pkl").write_bytes(b"\x80\x02" + rebuild + b"K\x07K\x00\x86R.")
    assert read_pickle(tmp_path / "b.pkl") == 7


@pytest.mark.parametrize("form", ["zip", "old"])
def test_tensors(form, tmp_path):
    """Shared, turned and cut ones, of several types, empty ones, parameters and buffers of modules."""
    table = torch.arange(12.0).view(3, 4)
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 2, bidirectional=True))
    content = {
        "turned": table.T, "row": table[1], "half": table.half(), "brain": table.bfloat16(), "bool": table > 3,
        "whole": torch.tensor([2**40]), "double": table.double(), "none": torch.empty(0, 3), "one": torch.tensor(5.0),
        "parameter": torch.nn.Parameter(table), "module": module, "options": argparse.Namespace(lr=0.1),
    }  # fmt: skip
    torch.save(content, tmp_path / "file.pt", _use_new_zipfile_serialization=form == "zip")
    found = read_pickle(tmp_path / "file.pt")
    for name in list(content)[:-2]:
        assert_close(found[name], content[name].detach())
    assert attributes(found["options"])["lr"] == 0.1
    torch.save([module, torch.nn.Linear(1, 1)], tmp_path / "list.pt", _use_new_zipfile_serialization=form == "zip")
    weights = read_checkpoint(tmp_path / "list.pt").weights
    assert_close(weights, dict(module.state_dict()))


def test_objects_of_classes_of_their_own(tmp_path):
    corpus = original_udgn.Corpus(["a", "b"])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "corpus.pkl").write_bytes(pickle.dumps(corpus, protocol))
        assert isinstance(read_pickle(tmp_path / "corpus.pkl"), StandIn)
        assert read_words(tmp_path / "corpus.pkl") == ["<unk>", "<pad>", "<mask>", "a", "b"]


def test_words_of_text_and_of_plain_dictionaries(tmp_path):
    (tmp_path / "words.txt").write_text("<unk>\n<pad>\n<mask>\n\u2028\nb\n", "utf-8")
    assert read_words(tmp_path / "words.txt")[3:] == ["\u2028", "b"]
    (tmp_path / "words.pkl").write_bytes(pickle.dumps({"b": 1, "a": 0}))
    assert read_words(tmp_path / "words.pkl") == ["a", "b"]
    (tmp_path / "none.pkl").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ValueError, match="holds no dictionary"):
        read_words(tmp_path / "none.pkl")


@given(st.binary(max_size=40), st.integers(0, 400))
def test_damaged_files_are_refused(tmp_path_factory, noise, place):
    path = tmp_path_factory.mktemp("damaged") / "file.pkl"
    whole = pickle.dumps(original_udgn.Corpus(["a"]))
    path.write_bytes(whole[:place] + noise + whole[place + len(noise) :])
    with contextlib.suppress(ValueError):  # and nothing else
        read_pickle(path)


def test_what_cannot_be_read_says_what_to_do(tmp_path):
    (tmp_path / "file.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"cannot read .*file\.pt(.|\n)*torch\.save\(model\.state_dict\(\)"):
        read_pickle(tmp_path / "file.pt")


def test_programs_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "program.pt", "w") as archive:
        archive.writestr("program/data.pkl", pickle.dumps({}))
        archive.writestr("program/constants.pkl", pickle.dumps(()))
    with pytest.raises(ValueError, match="a TorchScript program"):
        read_pickle(tmp_path / "program.pt")


@pytest.mark.parametrize("name", ["_parameters", "_modules", "_buffers"])
def test_modules_of_another_form_have_no_weights(name, tmp_path):
    module = torch.nn.Linear(2, 2)
    vars(module).update({part: [1] for part in ("_parameters", "_buffers", "_modules")}, **{name: 3})
    torch.save(argparse.Namespace(**vars(module)), tmp_path / "file.pt")
    with pytest.raises(ValueError, match="holds no weights"):
        read_checkpoint(tmp_path / "file.pt")


def test_files_without_weights(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "file.pt")
    with pytest.raises(ValueError, match="holds no weights"):
        read_checkpoint(tmp_path / "file.pt")
    with pytest.raises(ValueError, match="there is no file"):
        read_checkpoint(tmp_path / "nothing.pt")
    with pytest.raises(ValueError, match=r"a folder without model\.safetensors or pytorch_model\.bin"):
        read_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot read"):
        read_checkpoint(tmp_path)
