"""
Makes the BLLIP training sets XS, SM, MD and LG, and the shared validation and test sets, from your copy of BLLIP
1987-89 (LDC2000T43, folders such as `1987/W7_001`).

    python examples/prepare_bllip.py LDC2000T43 --size xs --output_dir bllip-xs
    python examples/prepare_bllip.py bllip_dependencies --format conllu --size lg --output_dir bllip-lg

The second command reads a conversion of the trees into 10-column CoNLL files in the same folders. The sections are
taken from Hu et al. 2020 ("A Systematic Assessment of Syntactic Generalization in Neural Language Models"), named as
in UDGN's release: about 40 thousand sentences in XS, 200 thousand in SM, 600 thousand in MD, 2 million in LG, each set
included in the next. Words are kept by their tags, as in prepare_ptb.py. UDGN's shared vocabulary is made of the words
that occur more than 27 times in LG: train the tokenizer on LG once and use it for all four sets.

UDGN's release takes the first 500 (validation) and 1000 (test) files of a section in the order of the file system;
here they are sorted by name, so that the choice is reproducible.
"""

import argparse
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.corpora.treebanks import find_sections, write_split

# fmt: off
SECTIONS = {
    "xs": {1987: [71, 122], 1988: [54, 107], 1989: [28, 37]},
    "sm": {
        1987: [35, 43, 48, 54, 61, 71, 77, 81, 96, 122],
        1988: [24, 54, 55, 59, 69, 73, 76, 79, 90, 107],
        1989: [12, 13, 15, 18, 21, 22, 28, 37, 38, 39],
    },
    "md": {
        1987: [5, 10, 18, 21, 22, 26, 32, 35, 43, 47, 48, 49, 51, 54, 55, 56, 57, 61, 62, 65, 71, 77, 79, 81, 90, 96,
               100, 105, 122, 125],
        1988: [12, 13, 14, 17, 23, 24, 33, 39, 40, 47, 48, 54, 55, 59, 69, 72, 73, 76, 78, 79, 83, 84, 88, 89, 90, 93,
               94, 96, 102, 107],
        1989: range(12, 42),
    },
    "lg": {1987: range(3, 128), 1988: range(3, 109), 1989: range(12, 42)},
    "valid": {1987: [1], 1988: [1], 1989: [10]},
    "test": {1987: [2], 1988: [2], 1989: [11]},
}
# fmt: on


def section_names(split: str) -> list[str]:
    """`1987/W7_071` and so on."""
    return [f"{year}/W{year % 10}_{number:03d}" for year, numbers in SECTIONS[split].items() for number in numbers]


def prepare(args) -> None:
    splits = {"train": section_names(args.size), "valid": section_names("valid"), "test": section_names("test")}
    limits = {"train": None, "valid": args.valid_files, "test": args.test_files}
    files = find_sections(args.folder, chain.from_iterable(splits.values()), args.pattern)
    options = {"keep_punctuation": args.keep_punctuation, "normalize": args.normalize}
    for name, sections in splits.items():
        paths = [path for section in sections for path in files[section][: limits[name]]]
        bar = tqdm(paths, desc=name, unit=" files")
        count, words = write_split(bar, Path(args.output_dir, name), args.format, args.overwrite, **options)
        print(f"{name}: {len(sections)} sections, {count:,} sentences, {words:,} words")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder above 1987, 1988 and 1989 (at any depth)")
    parser.add_argument("--size", choices=["xs", "sm", "md", "lg"], required=True, help="the training set")
    parser.add_argument("--output_dir", required=True, help="gets train, valid and test as .mrg or .conllu, and .txt")
    parser.add_argument("--overwrite", action="store_true", help="replace output files that exist")
    parser.add_argument("--format", choices=["brackets", "conllu"], default="brackets", help="of input and output")
    parser.add_argument("--pattern", default="*", help='of the input file names, such as "*.dep"; default: every file')
    parser.add_argument("--valid_files", type=int, default=500, help="files taken from each validation section")
    parser.add_argument("--test_files", type=int, default=1000, help="files taken from each test section")
    parser.add_argument("--keep_punctuation", action="store_true", help="leave punctuation in")
    parser.add_argument("--normalize", action="store_true", help="write words in lower case, with digits as N")
    run_with_options(parser, prepare, arguments)


if __name__ == "__main__":
    main()
