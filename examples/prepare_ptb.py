"""
Makes training, validation and test files from your copy of the Penn Treebank (LDC99T42).

Constituency trees, from the combined files (`.../wsj/00/wsj_0001.mrg`):

    python examples/prepare_ptb.py treebank_3/parsed/mrg/wsj --output_dir ptb

Dependency trees, from a conversion into 10-column CoNLL files in the same sections (`.../00/wsj_0001.mrg.dep`):

    python examples/prepare_ptb.py ptb_dependencies --format conllu --output_dir ptb

Splits: `udgn` (default), of StructFormer and UDGN, is sections 00-20 / 21-22 / 23; `standard` is 02-21 / 22 / 23. As
in these papers only words are kept, by their tags: punctuation, brackets and currency signs are dropped, and in
dependency trees the dependents of a dropped word are attached to its nearest kept ancestor. The tokenizer applies
lower case, digits -> N and the frequency threshold (5); --normalize applies the first two to the files, for use
elsewhere.
"""

import argparse
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.corpora.treebanks import find_sections, write_split

SPLITS = {
    "udgn": {"train": range(0, 21), "valid": range(21, 23), "test": range(23, 24)},
    "standard": {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)},
}
PATTERNS = {"brackets": "*.mrg", "conllu": "*.dep"}


def prepare(args) -> None:
    pattern = args.pattern or PATTERNS[args.format]
    splits = {name: [f"{section:02d}" for section in sections] for name, sections in SPLITS[args.splits].items()}
    files = find_sections(args.folder, chain.from_iterable(splits.values()), pattern)
    options = {"keep_punctuation": args.keep_punctuation, "normalize": args.normalize}
    for name, sections in splits.items():
        paths = tqdm([path for section in sections for path in files[section]], desc=name, unit=" files")
        count, words = write_split(paths, Path(args.output_dir, name), args.format, args.overwrite, **options)
        print(f"{name}: sections {sections[0]}-{sections[-1]}, {count:,} sentences, {words:,} words")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder above the sections 00 to 24 (at any depth)")
    parser.add_argument("--output_dir", required=True, help="gets train, valid and test as .mrg or .conllu, and .txt")
    parser.add_argument("--overwrite", action="store_true", help="replace output files that exist")
    parser.add_argument("--format", choices=list(PATTERNS), default="brackets", help="of the input and the output")
    parser.add_argument("--pattern", help="of the input file names; default: *.mrg for brackets, *.dep for conllu")
    parser.add_argument("--splits", choices=list(SPLITS), default="udgn", help="which sections are which")
    parser.add_argument("--keep_punctuation", action="store_true", help="leave punctuation in")
    parser.add_argument("--normalize", action="store_true", help="write words in lower case, with digits as N")
    run_with_options(parser, prepare, arguments)


if __name__ == "__main__":
    main()
