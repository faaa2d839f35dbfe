"""Files of treebanks, and the names by which a parser tells treebanks apart."""

import os
from collections.abc import Mapping, Sequence
from itertools import chain

from hf_structure.corpora.ud_folders import treebank_files, treebank_name
from hf_structure.models.families import family_of
from hf_structure.text.files import plain_path
from hf_structure.training.parsing.options import ParsingDataArguments
from hf_structure.training.scripts import config_class_of

PARTS = {"train": "train", "validation": "dev", "test": "test"}  # as they are called in file names
ANY = "any"  # name for sentences of an unnamed treebank


def find_files(args: ParsingDataArguments) -> dict[str, list[str]]:
    """Returns the files of each part; a folder stands for the files of all treebanks in it."""
    return {part: _files_of(getattr(args, f"{part}_file") or (), name) for part, name in PARTS.items()}


def _files_of(names: Sequence[str], part: str) -> list[str]:
    return list(chain(*(treebank_files(name, part) if os.path.isdir(name) else [name] for name in names)))


def name_treebanks(args: ParsingDataArguments, files: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """
    Returns the names of the treebanks of each part, one per file, or none if treebanks are not distinguished. Raises
    `ValueError` if training files and names differ in number, and for options about treebanks that have no effect.
    """
    treebanks = {part: _names_in(names) for part, names in files.items()}
    folders = [name for name in args.train_file or () if os.path.isdir(name)]
    _check_names(args.treebanks, folders, files["train"])
    # Only folders have names of their own: of single files, the user says whether they are treebanks.
    if not folders:
        treebanks["train"] = args.treebanks
    _check_effects(args, treebanks)
    return treebanks


def _check_names(names: Sequence[str], folders: Sequence[str], files: Sequence[str]) -> None:
    """Raises `ValueError` unless there are no names, or one for each training file, none of which is in a folder."""
    if names and folders:
        raise ValueError(f"--treebanks is for training files: the treebanks of {folders[0]} have names")
    if names and len(names) != len(files):
        raise ValueError(
            f"--treebanks names {len(names)} treebanks, one for each training file: there are {len(files)}"
        )


def _check_effects(args: ParsingDataArguments, treebanks: Mapping[str, Sequence[str]]) -> None:
    if not 0 <= args.sampling_power <= 1:
        raise ValueError(f"--sampling_power must be between 0 and 1, not {args.sampling_power}")
    if args.sampling_power != 1 and len({*treebanks["train"]}) < 2:
        raise ValueError("--sampling_power needs several training treebanks: a folder of them, or --treebanks")
    if args.tell_treebank and not (treebanks["validation"] or treebanks["test"]):
        raise ValueError("--tell_treebank needs files to evaluate that have names like de_gsd-ud-dev.conllu")


def _names_in(files: Sequence[str]) -> list[str]:
    """Returns the treebank of each file, by its name in UD, or else the file's name; none if no file is named so."""
    names = [treebank_name(file) for file in files]
    if not any(names):
        return []
    return [name or plain_path(file).stem for name, file in zip(names, files, strict=True)]


def are_equal(args: ParsingDataArguments, treebanks: Sequence[str]) -> bool:
    """Returns True for the treebanks of folders: the parser follows the habits of none in particular."""
    return bool(treebanks) and not args.treebanks


def treebank_settings(model_type: str, args: ParsingDataArguments, treebanks: Sequence[str]) -> dict:
    """Returns the settings of a new parser for its treebanks. With folders, parsing works without a name, too."""
    names = list(dict.fromkeys(treebanks))
    if args.treebanks:
        return {"treebanks": names}
    family = family_of(config_class_of(model_type))
    if are_equal(args, treebanks) and family is not None and "treebanks" in family.options:
        return {"treebanks": [ANY, *names], "treebank_dropout": 0.5}
    return {}
