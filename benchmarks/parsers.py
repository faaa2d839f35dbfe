"""
Speed on one thread and accuracy of the parsers that are installed, on one treebank, from raw text and from its words.

    python benchmarks/parsers.py en_ewt-dev.conllu --models rngt-en rngt-en:int8 --spacy en_core_web_sm \\
        --stanza en --udpipe english-ewt.udpipe --output outputs

`NAME:DTYPE` is a model of this library in another precision, `NAME+constituents` one that gives both trees. Raw text
is rebuilt from `# text` and `# newpar`. Speed is words of the treebank per second, without loading, the best of
`--repeats` runs, and the ratio to the first parser in the same run. Accuracy is that of the evaluator of CoNLL 2018
(`pip install udtools`); cells that a parser does not give are empty. Models of this library find the sentences of raw
text themselves if they can, else rules do. UAS and LAS of a parser that was not trained on Universal Dependencies say
nothing. With `--output`, the trees are kept in this folder. `--figure speed.svg` draws LAS over words a second;
`--without` names parsers to leave out.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from measuring import add_machine_options, fastest, machine, table

import hf_structure
from hf_structure.cli.common import FIGURE_SUFFIXES, save_figure
from hf_structure.drawing.figures import plot_costs
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import load_parser
from hf_structure.text.conllu import ConlluSentence, by_paragraph, raw_text, read_conllu, write_conllu

METRICS = ["Sentences", "Words", "UPOS", "XPOS", "UFeats", "Lemmas", "UAS", "LAS", "MLAS"]
COLUMNS = {"UPOS": "upos", "XPOS": "xpos", "UFeats": "feats", "Lemmas": "lemma", "MLAS": "feats"}  # what they need
BOTH = "+constituents"
Run = Callable[[], str]  # gives CoNLL-U


def ours(name: str, gold: list[ConlluSentence], texts: list[str]) -> tuple[Run, Run]:
    one_tree = name.removesuffix(BOTH)
    structure = "dependency" if one_tree == name else "both"
    name, _, dtype = one_tree.partition(":")
    model, tokenizer = load_parser(name, None, "cpu", dtype or "float32")
    # A model without constituents is refused here, before anything is measured.
    parse_words = hf_structure.Parser(model, tokenizer=tokenizer, structure=structure)
    sentences = "model" if abilities_of(model.config).segments else "split"
    parse_texts = hf_structure.Parser(model, tokenizer=tokenizer, structure=structure, sentences=sentences)
    blanks = [blank(sentence) for sentence in gold]

    def words() -> str:
        trees = [parsed.dependency for parsed in parse_words([sentence.forms for sentence in gold])]
        return "".join(str(tree.written_into(sentence)) for sentence, tree in zip(blanks, trees, strict=True))

    return lambda: parse_texts(texts).to_conllu(), words


def spacy(name: str, gold: list[ConlluSentence], texts: list[str]) -> tuple[Run, Run]:
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(name, exclude=["ner"])

    def conllu(docs: Iterable[Doc]) -> str:
        lines = []
        for doc in docs:
            for sentence in doc.sents:
                tokens = [token for token in sentence if not token.is_space]
                places = {token.i: place for place, token in enumerate(tokens, start=1)}
                for token in tokens:
                    head = 0 if token.head == token else places.get(token.head.i, 0)
                    cells = [places[token.i], token.text, token.lemma_ or "_", token.pos_ or "_", token.tag_ or "_"]
                    label = token.dep_.lower() if head else "root"
                    feats = str(token.morph) or "_"
                    lines.append("\t".join(map(str, [*cells, feats, head, label or "_", "_", "_"])))
                lines += [""] * bool(tokens)
        return "\n".join([*lines, ""])

    def words() -> str:
        docs = (
            Doc(nlp.vocab, words=sentence.forms, sent_starts=[True] + [False] * (len(sentence.forms) - 1))
            for sentence in gold
        )
        return conllu(nlp.pipe(docs))

    return lambda: conllu(nlp.pipe(texts)), words


def stanza(name: str, gold: list[ConlluSentence], texts: list[str]) -> tuple[Run, Run]:
    import stanza

    options = {"processors": "tokenize,mwt,pos,lemma,depparse", "use_gpu": False, "download_method": None}
    raw = stanza.Pipeline(name, verbose=False, **options)
    options["processors"] = "tokenize,pos,lemma,depparse"
    split = stanza.Pipeline(name, verbose=False, tokenize_pretokenized=True, **options)
    return (
        lambda: "{:C}\n\n".format(raw("\n\n".join(texts))),
        lambda: f"{split([sentence.forms for sentence in gold]):C}\n\n",
    )


def udpipe(path: str, gold: list[ConlluSentence], texts: list[str]) -> tuple[Run, Run]:
    from ufal.udpipe import Model, Pipeline

    model = Model.load(path)
    if model is None:
        raise OSError(f"{path} holds no model of UDPipe")
    default = Pipeline.DEFAULT
    blanks = "".join(str(blank(sentence)) for sentence in gold)
    raw = Pipeline(model, "tokenize", default, default, "conllu")
    words = Pipeline(model, "conllu", default, default, "conllu")
    return lambda: raw.process("\n\n".join(texts)), lambda: words.process(blanks)


def blank(sentence: ConlluSentence) -> ConlluSentence:
    """Words and multi-word tokens alone."""
    nothing = ["_"] * len(sentence.words)
    columns = ("lemma", "upos", "xpos", "feats", "head", "deprel")
    return sentence.with_deps(nothing).with_columns(dict.fromkeys(columns, nothing))


def score(gold: Path, system: Path) -> list[str]:
    """Cells of the table; empty ones where the parser gives no such column, or the files cannot be compared."""
    from udtools.udeval import UDError, evaluate, load_conllu_file

    try:
        found = evaluate(load_conllu_file(str(gold)), load_conllu_file(str(system)))
    except UDError as error:
        print(f"{system.name}: {error}", file=sys.stderr)
        return [""] * len(METRICS)
    words = [word for sentence in read_conllu(system) for word in sentence.words]
    empty = {name for name, column in COLUMNS.items() if all(getattr(word, column) == "_" for word in words)}
    return ["" if name in empty else f"{100 * found[name].f1:.1f}" for name in METRICS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a treebank in CoNLL-U")
    own = {"default": ["rngt-en", "rngt-en:int8"], "metavar": f"NAME[:DTYPE][{BOTH}]"}
    parser.add_argument("--models", nargs="*", **own)
    others = partial(parser.add_argument, nargs="*", default=[])
    others("--spacy", metavar="MODEL", help="names or folders of pipelines of spaCy; named entities are left out")
    others("--stanza", metavar="LANGUAGE", help="languages of stanza, whose models are there")
    others("--udpipe", metavar="FILE", help="models of UDPipe 1")
    parser.add_argument("--limit", type=int, help="number of sentences; all by default")
    parser.add_argument("--repeats", type=int, default=1, help="runs of which the fastest counts")
    parser.add_argument("--output", help="folder for the trees")
    parser.add_argument("--figure", metavar="FILE", help="draw LAS over speed")
    parser.add_argument("--without", nargs="*", default=[], metavar="NAME", help="parsers that are not drawn")
    add_machine_options(parser)
    parser.set_defaults(threads=1, clock="processor")
    options = parser.parse_args()
    if options.figure and Path(options.figure).suffix.lower() not in FIGURE_SUFFIXES:
        parser.error(f"--figure must end in {', '.join(FIGURE_SUFFIXES)}")
    try:
        import udtools.udeval  # noqa: F401
    except ImportError:
        parser.error("the evaluator is missing: pip install udtools")
    torch.set_num_threads(options.threads)
    gold = list(islice(read_conllu(options.file), options.limit))
    texts = list(map(raw_text, by_paragraph(gold)))
    count = sum(len(sentence.forms) for sentence in gold)
    print(f"{machine(options)}; {len(gold):,} sentences, {count:,} words")
    makers = [(name, partial(ours, name)) for name in options.models]
    for maker in (spacy, stanza, udpipe):
        names = getattr(options, maker.__name__)
        makers += [(f"{maker.__name__} {name}", partial(maker, name)) for name in names]
        if not names:
            print(f"skipped: {maker.__name__} (no model is given)")
    built = []
    for name, make in makers:
        try:
            built.append((name, make(gold, texts)))
        except (ImportError, OSError, ValueError) as error:
            print(f"skipped: {name} ({str(error).strip().splitlines()[0]})")
    with TemporaryDirectory() as temporary:
        folder = Path(options.output or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_conllu(gold, folder / "gold.conllu")
        drawn = {}
        for place, kind in enumerate(("raw text", "given words")):
            runs = [runs[place] for _, runs in built]
            outputs = []
            for (name, _), run in zip(built, runs, strict=True):
                file = re.sub(r"[^\w.-]", "_", name)
                outputs.append(folder / f"{file}.{kind.split()[0]}.conllu")
                outputs[-1].write_text(run(), encoding="utf-8")  # also the first run, which is not measured
            times = fastest(runs, options.repeats, options.clock)
            names = [name for name, _ in built]
            scores = [score(folder / "gold.conllu", output) for output in outputs]
            rows = [
                [f"{count / own:,.0f}", f"{times[0] / own:.2f}", *cells]
                for own, cells in zip(times, scores, strict=True)
            ]
            print(f"\n{kind}\n")
            print(table("parser", ["words/s", "ratio", *METRICS], names, rows), flush=True)
            points = {
                name: (count / own, float(las))
                for name, own, cells in zip(names, times, scores, strict=True)
                if (las := cells[METRICS.index("LAS")]) and name not in options.without
            }
            if points:
                drawn[f"LAS, {kind}"] = points
    if options.figure and drawn:
        save_figure(plot_costs(drawn, "words a second, one thread"), Path(options.figure))
    elif options.figure:
        print("no figure: no parser that is drawn has a LAS")


if __name__ == "__main__":
    main()
