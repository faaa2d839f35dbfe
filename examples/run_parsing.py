"""
Train a dependency parser, a Graph-to-Graph Transformer, on a treebank in CoNLL-U.

    accelerate launch examples/run_parsing.py --model_type rng_transformer \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/parser

`--model_type rng_transformer` predicts all arcs at once and refines them; `g2g_transformer` (the default) builds the
tree step by step. Words, heads and relation labels are read (`--no_labels`: no labels; `--use_tags`: part-of-speech
tags too). Several files may be given. A parser from scratch has a vocabulary of the words of the training trees, or
with `--tokenizer_name unigram` or `bpe` of subwords trained on them, or the subwords of a given tokenizer;
`--config_overrides` and `--config` (see `examples/configs`) set its sizes. A parser that starts from a pretrained
encoder, or from its first layers (`--num_layers`):

    accelerate launch examples/run_parsing.py --model_type rng_transformer --encoder bert-base-cased --bf16 \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/bert-parser

`--learning_rate` is then that of the encoder's parameters, `--new_learning_rate` that of the others; from scratch all
are new. Both rise in the first `--warmup_steps` (a share of all steps, if below 1) and then fall to zero.
`--columns upos xpos feats lemma` teaches a `rng_transformer` to tag and lemmatise too (lemmas gain from
`--use_lexicon`), and `--config_overrides '{"num_segmentation_layers": 6}'` to find where sentences begin, from files
with paragraphs (`# newpar`, `# newdoc`). `--treebanks`, a name for each training file, tells treebanks apart that
differ in their annotation; the parser follows the first by default.

A folder in the place of a file stands for all treebanks in it, and in the folders below, whose files have the names of
Universal Dependencies: `--train_file ud --validation_file ud --test_file ud` trains on `de_gsd-ud-train.conllu` and
the like (compressed or not), validates on `de_gsd-ud-dev.conllu`, and tests on `de_gsd-ud-test.conllu`. Half of the
training sentences are read without their treebank's name, so that the parser, a `rng_transformer`, need not be told
the treebank or language of a sentence. `--sampling_power 0.5` lets small treebanks count for more. Evaluations print
the scores of each treebank as a table.

`--model_name_or_path runs/parser` goes on with a trained parser, for example on other trees; settings that leave its
weights as they are may be new (`--config_overrides '{"num_rounds": 3}'`).

A `rng_transformer` learns to refine the trees of another parser where these are given (`--initial_train_file` and so
on: the same sentences in the same order). With `--teacher runs/large`, it learns the probabilities of a larger parser
beside the training trees. Crossing arcs of a `g2g_transformer` need `--use_swap`. Training sentences that cannot be
learned from are left out, and it is said how many and why.

After each epoch UAS and LAS are reported, over all words and without punctuation; the checkpoint of the best LAS is
kept. A run that was stopped goes on from its last complete checkpoint when the same command is given again. On several
GPUs `accelerate launch` starts a process each, on a CPU `torchrun --nproc_per_node 2 ...`.

Without a training file a trained parser is evaluated:

    python examples/run_parsing.py --model_name_or_path runs/parser --test_file test.conllu --output_dir runs/parser
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, groupby
from typing import ClassVar

import pyarrow.compute
import torch
from datasets import Dataset, List, Value, concatenate_datasets
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

import hf_structure
from hf_structure import AutoModelForDependencyParsing, G2GTransformerConfig, ParsingCollator, RNGTransformerConfig
from hf_structure.algorithms.trees import is_tree
from hf_structure.algorithms.word_annotations import features_label, lemma_rule
from hf_structure.corpora.collators import IGNORE_INDEX, TEACHER
from hf_structure.corpora.corpus import column_numbers
from hf_structure.corpora.ud_folders import treebank_files, treebank_name
from hf_structure.models.families import families_of
from hf_structure.models.g2g_transformer.states_g2g_transformer import why_unusable
from hf_structure.parsing.encoding import encode_beside
from hf_structure.parsing.loading import load_trained, own_tokenizer, read_tokenizer
from hf_structure.text.conllu import PARAGRAPHS, ConlluSentence, read_conllu
from hf_structure.text.files import plain_path
from hf_structure.text.formats import GRAPH_FORMATS, guess_format
from hf_structure.text.lexicons import known_lemmas, known_words
from hf_structure.text.normalization import keep_mask
from hf_structure.text.tokenization import (
    SUBWORD_KINDS,
    encode,
    is_word_level,
    train_subword_tokenizer,
    train_word_tokenizer,
)
from hf_structure.text.words import WORD_TOKENIZERS, numbered_lines
from hf_structure.training.arguments import DataArguments, ModelArguments, RunArguments, option
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.corpora import NUMBER, NUMBERS, STRINGS, Corpora, Reading, words_of
from hf_structure.training.distillation import Teacher
from hf_structure.training.scripts import (
    begin,
    callbacks,
    check_settings,
    config_class_of,
    new_config,
    readable_settings,
    run,
    train_and_evaluate,
)
from hf_structure.training.trainers import ParsingTrainer

logger = logging.getLogger("run_parsing")

VARIANTS = families_of("parsing")
DEFAULT_FAMILY = G2GTransformerConfig.model_type
TREELESS = {"text": "text", "brackets": "constituency trees", **dict.fromkeys(GRAPH_FORMATS, "dependency graphs")}
PREDICTED = ("upos", "xpos", "feats", "lemma")
FEATURES = dict.fromkeys(("words", "deprels", "tags", *PREDICTED), STRINGS)
FEATURES |= {"heads": NUMBERS, "treebank": Value("string")}
WINDOW = 128  # words of running text in which sentence starts are learned
PARTS = {"train": "train", "validation": "dev", "test": "test"}
ANY = "any"  # the treebank of sentences that are not told theirs


@dataclass
class ParsingModelArguments(ModelArguments):
    """What is trained."""

    needs: ClassVar[dict[str, str]] = {
        "num_layers": "encoder",
        "teacher": "train_file",
        **dict.fromkeys(("teacher_columns", "teacher_weight"), "teacher"),
    }

    model_type: str | None = option(
        None, f"Family of a new parser: {', '.join(VARIANTS)}, or your own; {DEFAULT_FAMILY} if not given."
    )
    encoder: str | None = option(
        None, "Encoder to start from (folder or Hub name): BERT, RoBERTa, DistilBERT, MPNet, ..."
    )
    num_layers: int | None = option(
        None,
        "How many of the encoder's layers are used, the first ones; by default 6 in a g2g_transformer, "
        "all in a rng_transformer.",
    )
    tokenizer_name: str = option(
        "words",
        "From scratch: words, unigram or bpe for a vocabulary of the training trees, or a tokenizer of "
        "subwords (folder or Hub name).",
    )
    word_tokenizer: str = option(
        "english", "What splits raw text into words like those of trees.", choices=list(WORD_TOKENIZERS)
    )
    min_frequency: int = option(2, "Words seen fewer times in training are unknown.")
    vocab_size: int | None = option(None, "Largest size of a vocabulary that is made.")
    use_swap: bool = option(False, "Learn and predict crossing arcs.")
    no_labels: bool = option(False, "Predict no relation labels.")
    use_tags: bool = option(False, "Read part-of-speech tags (XPOS, or else UPOS) too.")
    columns: list[str] = field(
        default_factory=list,
        metadata={
            "help": "What is predicted of each word too; values seen fewer than --min_frequency times are not. "
            "Without a name, those of --config are left out.",
            "choices": list(PREDICTED),
        },
    )
    use_lexicon: bool = option(
        False, "Correct predicted lemmas with the words of the first training file and the lemmas of all of them."
    )
    teacher: str | None = option(
        None, "A trained rng_transformer (its name or folder) whose probabilities are learned beside the trees."
    )
    teacher_columns: list[str] | None = option(
        None,
        "The --columns that are learned from the teacher; by default all that it predicts.",
        choices=list(PREDICTED),
    )
    teacher_weight: float = option(1.0, "Weight of what is learned from the teacher; that of the trees is 1.")


@dataclass
class ParsingDataArguments(DataArguments):
    """What it is trained on."""

    of_evaluation: ClassVar[tuple[str, ...]] = (*DataArguments.of_evaluation, "punctuation_by", "tell_treebank")

    treebanks: list[str] = field(
        default_factory=list,
        metadata={"help": "Name of the treebank of each training file; evaluation follows the first."},
    )
    sampling_power: float = option(
        1.0,
        "In an epoch, sentences are drawn from each training treebank in proportion to its size to this "
        "power: from all alike if 0.",
    )
    tell_treebank: bool = option(False, "Evaluate each treebank as one of its own style, not of the first.")
    initial_train_file: list[str] | None = option(
        None, "The training sentences as another parser has parsed them, which are refined."
    )
    initial_validation_file: list[str] | None = option(None, "The same of the validation sentences.")
    initial_test_file: list[str] | None = option(None, "The same of the test sentences.")
    max_tokens: int = option(
        512, "Words (or pieces, where the encoder reads these) of a batch on one device, padding counted."
    )
    punctuation_by: str = option(
        "auto", "What is punctuation in evaluation.", choices=["auto", "deprel", "tags", "form"]
    )


@dataclass
class ParsingTrainingArguments(RunArguments):
    """`TrainingArguments` with the optimiser and schedule of the paper."""

    learning_rate: float = option(1e-5, "Highest learning rate of pretrained parameters.")
    new_learning_rate: float = option(3e-4, "Highest learning rate of the others.")
    adam_epsilon: float = option(1e-6, "Epsilon of AdamW.")
    weight_decay: float = option(0.01, "Weight decay of AdamW.")
    max_grad_norm: float = option(1.0, "Bound of the gradient's norm.")
    warmup_steps: float = option(0.01, "Steps, or below 1 the share of them, in which the learning rates rise.")
    num_train_epochs: float = option(12, "Number of passes over the training trees.")
    metric_for_best_model: str | None = option(
        "las", "What makes a checkpoint the best: las, uas, las_no_punct or uas_no_punct."
    )


def parse_arguments() -> tuple[ParsingModelArguments, ParsingDataArguments, ParsingTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    model_args, data_args, training_args, settings = parse_command_line(
        (ParsingModelArguments, ParsingDataArguments, ParsingTrainingArguments),
        description=__doc__,
        example="[--encoder bert-base-cased]",
    )
    check_options(model_args, training_args, settings)
    model_args.model_type = settings.pop("model_type", DEFAULT_FAMILY)
    if model_args.use_swap:
        settings["use_swap"] = True
    if model_args.no_labels:
        settings["labelled"] = False
    return model_args, data_args, training_args, settings


def check_options(args: ParsingModelArguments, training_args: ParsingTrainingArguments, settings: dict) -> None:
    """Raises `ValueError` for an unknown family, and for options that have no meaning here or beside others."""
    config_class = config_class_of(settings.get("model_type", DEFAULT_FAMILY))
    if not hasattr(config_class, "labelled"):  # what all parsers that are trained on trees say of themselves
        raise ValueError(f"this script trains models of the types {' and '.join(VARIANTS)}, or your own like them")
    if args.use_swap and not issubclass(config_class, G2GTransformerConfig):
        raise ValueError("--use_swap is for a g2g_transformer: others predict crossing arcs as they are")
    if args.columns and not hasattr(config_class, "columns"):
        raise ValueError("--columns is for a rng_transformer: others predict heads and labels alone")
    if args.use_lexicon and not {"lemma", "upos", "xpos"} <= {*args.columns} and not args.model_name_or_path:
        raise ValueError("--use_lexicon corrects lemmas by their tags: it needs --columns lemma upos xpos")
    of_new_parsers = ("encoder", "use_swap", "no_labels", "use_tags", "columns", "use_lexicon")
    given = {name for name in of_new_parsers if getattr(args, name)}
    if args.tokenizer_name != "words":
        given.add("tokenizer_name")
    if args.model_name_or_path and given:
        raise ValueError(f"--{min(given)} is for a new parser: that of --model_name_or_path is as it was trained")
    if {"encoder", "tokenizer_name"} <= given:
        raise ValueError("--tokenizer_name is for a parser from scratch: an --encoder has its own")
    if training_args.label_smoothing_factor:
        raise ValueError("--label_smoothing_factor is for language models: the losses of parsers have none")


def read_words(path: str, treebank: str | None = None) -> Iterator[dict]:
    """The sentences of a CoNLL-U file, with the labels of what a parser may predict; None where they are not known."""
    for sentence in read_conllu(path):
        yield {**sentence.to_sentence(), **annotations(sentence), "treebank": treebank}


def annotations(sentence: ConlluSentence) -> dict[str, list[str | None]]:
    """Labels of each word by the names of `PREDICTED`."""
    upos = [None if word.upos == "_" else word.upos for word in sentence.words]
    xpos = [None if word.xpos == "_" else word.xpos for word in sentence.words]
    feats = [None if word.upos == "_" else features_label(word.upos, word.feats) for word in sentence.words]
    lemma = [None if word.lemma == "_" else lemma_rule(word.form, word.lemma) for word in sentence.words]
    return {"upos": upos, "xpos": xpos, "feats": feats, "lemma": lemma}


def lexicon_of(files: list[str]) -> dict[str, str | dict[str, str]]:
    """Settings of a parser whose lemmas are corrected by a lexicon of its training files."""
    every = chain.from_iterable(map(read_conllu, files))
    return {"known_words": known_words(read_conllu(files[0])), "known_lemmas": known_lemmas(every)}


def read_paragraphs(path: str, treebank: str | None = None) -> Iterator[dict]:
    """
    Stretches of running text, up to `WINDOW` words of a paragraph, with the `sentence_starts` among its words; that of
    the paragraph's first word, which is certain, is not known. Nothing of a file that marks no paragraphs.
    """
    stretch: list[tuple] = []  # word, relation, and whether a sentence begins
    is_marked = False
    for sentence in read_conllu(path):
        if sentence.begins_paragraph and stretch:
            yield as_stretch(stretch, treebank)
            stretch = []
        is_marked = is_marked or sentence.begins_paragraph
        if not is_marked:
            continue
        begins = IGNORE_INDEX if sentence.begins_paragraph else 1
        starts = [begins, *[0] * (len(sentence.forms) - 1)]
        stretch += zip(sentence.forms, sentence.deprels, starts, strict=True)
        while len(stretch) >= WINDOW:
            yield as_stretch(stretch[:WINDOW], treebank)
            stretch = stretch[WINDOW:]
    if stretch:
        yield as_stretch(stretch, treebank)


def as_stretch(stretch: list[tuple], treebank: str | None) -> dict:
    words, deprels, starts = map(list, zip(*stretch, strict=True))
    row = dict.fromkeys(FEATURES) | {"words": words, "deprels": deprels}
    return row | {"sentence_starts": starts, "treebank": treebank}


def find_files(names: list[str] | None, part: str) -> list[str]:
    """Files, and in the place of folders the files of treebanks in them."""
    return list(chain(*(treebank_files(name, part) if os.path.isdir(name) else [name] for name in names or ())))


def treebanks_of(files: list[str]) -> list[str]:
    """The name of each file's treebank, if some file has the name of one in Universal Dependencies; or else none."""
    names = [treebank_name(file) for file in files]
    return [name or plain_path(file).stem for name, file in zip(names, files, strict=True)] if any(names) else []


def read_treebanks(files: list[str], treebanks: list[str], corpora: Corpora, reading: Reading) -> Dataset:
    """The rows of files, those of each treebank with its name."""
    if not treebanks:
        return corpora.read(files, reading)
    groups = groupby(zip(treebanks, files, strict=True), key=lambda pair: pair[0])
    parts = [
        corpora.read([file for _, file in pairs], replace(reading, read=partial(reading.read, treebank=treebank)))
        for treebank, pairs in groups
    ]
    return concatenate_datasets(parts)


def read_trees(files: list[str], corpora: Corpora, treebanks: list[str] = ()) -> Dataset:
    """The trees of files. `ValueError` for a file that cannot have any, or if no sentence of all has one."""
    for file in files:
        if (form := guess_format(file)) != "conllu":
            raise ValueError(f"{file}: {TREELESS[form]}, words without a head: dependency trees in CoNLL-U are needed")
    trees = read_treebanks(files, treebanks, corpora, Reading(read_words, FEATURES))
    tables = trees.select_columns("heads").with_format("arrow").iter(1000)
    if all(table["heads"].null_count == len(table) for table in tables):
        raise ValueError(f"{', '.join(files)}: words without a head, in every sentence: dependency trees are needed")
    return trees


def names(sentences: Dataset, column: str, purpose: str, min_frequency: int = 1) -> list[str]:
    """The different values of a column that are frequent enough. `ValueError` if there are none."""
    batches = sentences.select_columns(column).iter(1000)
    counts = Counter(value for batch in batches for row in batch[column] for value in row or ())
    values = {value for value, count in counts.items() if count >= min_frequency} - {"_", None}
    if not values:
        raise ValueError(f"the training trees have no {purpose}")
    return sorted(values)


def load_tokenizer(args: ParsingModelArguments, sentences: Dataset | None) -> PreTrainedTokenizerBase:
    """The trained parser's or the encoder's tokenizer, a given one of subwords, or a new one."""
    trust = {"trust_remote_code": args.trust_remote_code}
    if args.model_name_or_path:
        return read_tokenizer(hf_structure.resolve_model(args.model_name_or_path, **trust), **trust)
    size = args.vocab_size
    if args.encoder is None and args.tokenizer_name == "words":
        options = {"min_frequency": args.min_frequency, "vocab_size": size, "skip_punctuation": False}
        tokenizer = train_word_tokenizer(words_of(sentences), **options)
    elif args.encoder is None and args.tokenizer_name in SUBWORD_KINDS:
        options = {"kind": args.tokenizer_name, **({"vocab_size": size} if size else {})}
        tokenizer = train_subword_tokenizer(words_of(sentences), **options)
    else:
        tokenizer = AutoTokenizer.from_pretrained(args.encoder or args.tokenizer_name, add_prefix_space=True, **trust)
        if tokenizer.pad_token is None:
            tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.init_kwargs["word_tokenizer"] = args.word_tokenizer
    return tokenizer


def load_model(
    args: ParsingModelArguments, settings: dict, tokenizer: PreTrainedTokenizerBase, sentences: Dataset | None
) -> PreTrainedModel:
    """A trained parser, one that starts from an encoder, or a new one."""
    if args.model_name_or_path:
        return load_trained(
            args.model_name_or_path, AutoModelForDependencyParsing, "parser", settings, args.trust_remote_code
        )
    settings = dict(settings)
    if args.use_tags:
        settings["tags"] = names(sentences, "tags", "part-of-speech tags: leave --use_tags out")
        settings["num_tags"] = len(settings["tags"])
    if args.columns:
        least = args.min_frequency
        settings["columns"] = {name: names(sentences, name, f"{name} (--columns)", least) for name in args.columns}
    labelled = settings.pop("labelled", True)
    labels = names(sentences, "deprels", "relation labels: give --no_labels") if labelled else None
    if args.encoder:
        check_settings(args.model_type, settings)
        layers = {"num_layers": args.num_layers} if args.num_layers else {}
        family = AutoModelForDependencyParsing._model_mapping[config_class_of(args.model_type)]
        with readable_settings():
            return family.from_pretrained_encoder(args.encoder, tokenizer, labels=labels, **layers, **settings)
    if labels:
        settings["id2label"] = dict(enumerate(labels))
    settings["labelled"] = labelled
    config = new_config(args.model_type, settings, tokenizer, special=("unk", "pad"))
    return AutoModelForDependencyParsing.from_config(config)


def new_parameters(model: PreTrainedModel, args: ParsingModelArguments) -> list[str]:
    """Names of the parameters that are no encoder's; of a parser from scratch, all."""
    every = [name for name, _ in model.named_parameters()]
    if not args.encoder and not args.model_name_or_path:
        return every
    is_beneath = getattr(model.base_model, "encoder", None) is not None
    prefix = f"{model.base_model_prefix}.{'encoder.' if is_beneath else ''}"
    return [name for name in every if not name.startswith(prefix) or "_relations." in name]


def why_left_out(
    sentence: dict, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, max_length: int | None
) -> str | None:
    """Why a sentence is left out, or None. A tree that the parser cannot make matters in training only."""
    longest = min(max_length or config.max_words, config.max_words)
    if sentence["heads"] is None:
        return "words without a head"
    if len(sentence["words"]) > longest:
        return f"more than {longest} words"
    longest = getattr(config, "max_pieces", None)
    if longest and len(encode(sentence["words"], tokenizer)["input_ids"]) > longest:
        return f"more than {longest} word pieces"
    if max_length is None:
        return None
    if isinstance(config, G2GTransformerConfig):
        return why_unusable(sentence["heads"], config)
    return None if is_tree(sentence["heads"]) else "no tree with one root"


def with_initial_trees(sentences: Dataset, files: list[str] | None, corpora: Corpora) -> Dataset:
    """The sentences with the trees that another parser gave them. `ValueError` if those are other sentences."""
    if not files:
        return sentences
    trees = read_trees(files, corpora)
    if len(trees) != len(sentences):
        raise ValueError(f"{', '.join(files)}: {len(trees)} sentences, but {len(sentences)} to refine")
    pairs = zip(trees.select_columns(["words", "heads"]), words_of(sentences), strict=True)
    for number, (tree, words) in enumerate(pairs, start=1):
        if tree["words"] != words or tree["heads"] is None:
            raise ValueError(f"{', '.join(files)}: sentence {number} has other words, or no heads")
    columns = {"heads": "initial_heads", "deprels": "initial_deprels"}
    return concatenate_datasets([sentences, trees.select_columns(list(columns)).rename_columns(columns)], axis=1)


def without_unusable(dataset: Dataset, purpose: str) -> Dataset:
    """The other sentences; those left out are counted. `ValueError` if all are."""
    reasons = Counter()
    column = dataset.select_columns("left_out").with_format("arrow")
    for table in column.iter(1000):
        reasons.update(table["left_out"].drop_null().to_pylist())
    kept = column_numbers(column, "left_out", pyarrow.compute.is_null).nonzero()[0]
    counted = f"{len(dataset) - len(kept)} of {len(dataset)} sentences left out"
    counted += "".join(f"; {count}: {reason}" for reason, count in reasons.most_common())
    if not len(kept):
        raise ValueError(f"{purpose}: {counted}")
    if reasons:
        logger.warning("%s: %s", purpose, counted)
        dataset = dataset.select(kept)
    return dataset.remove_columns("left_out")


def read_features(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> dict:
    """The columns of what a parser reads of words, with their types."""
    features: dict = {"input_ids": NUMBERS}
    if not is_word_level(tokenizer):
        features["word_ids"] = NUMBERS
    if config.abilities.read_beside is not None:
        features["form_ids"] = List(NUMBERS)
    if config.abilities.treebanks:
        features["treebank_ids"] = NUMBERS
    return features


def to_dataset(
    sentences: Dataset, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, corpora: Corpora, **options
) -> Dataset:
    """What [`encode_sentences`] gives."""
    features = read_features(tokenizer, config) | {"heads": NUMBERS, "length": NUMBER, "labels": NUMBERS}
    features |= {"punctuation": List(Value("bool")), "left_out": Value("string")}
    if config.num_tags:
        features["tag_ids"] = NUMBERS
    if "initial_heads" in sentences.column_names:
        features |= {"initial_heads": NUMBERS, "initial_deprels": NUMBERS}
    if sentences.unique("treebank") != [None]:
        features["treebank"] = Value("string")
    features |= dict.fromkeys(getattr(config, "columns", None) or (), NUMBERS)
    if config.abilities.segments:
        features["sentence_starts"] = NUMBERS
    return corpora.encode(sentences, partial(encode_sentences, config=config, **options), tokenizer, features)


def encode_sentences(
    sentences: list[dict],
    tokenizer: PreTrainedTokenizerBase,
    config: PreTrainedConfig,
    punctuation_by: str,
    max_length: int | None,
    tell_treebank: bool,
) -> list[dict]:
    """
    What [`ParsingTrainer`] reads, and why a sentence is `left_out`; labels are -100 where they are not known, 0 in a
    parser without labels. `max_length` is given in training. `tell_treebank` says whether the parser reads of which
    treebank a sentence is.
    """
    labels = {label: number for number, label in config.id2label.items()} if config.labelled else None
    tags = {tag: number for number, tag in enumerate(config.tags)} if config.num_tags else None
    columns = {
        name: {value: number for number, value in enumerate(values)}
        for name, values in (getattr(config, "columns", None) or {}).items()
    }
    rows = []
    for sentence in sentences:
        reason = why_left_out(sentence, tokenizer, config, max_length)
        if "sentence_starts" in sentence:
            rows.append(encode_paragraph(sentence, tokenizer, config, labels))
        elif reason is None:
            rows.append(encode_sentence(sentence, tokenizer, config, labels, tags, columns))
            kept = keep_mask(sentence["words"], sentence["tags"], sentence["deprels"], by=punctuation_by)
            rows[-1]["punctuation"] = [not word for word in kept]
        else:
            rows.append({"left_out": reason})
        if rows[-1].get("left_out") is None:
            treebank = sentence["treebank"]
            rows[-1] |= beside(sentence["words"], config, treebank if tell_treebank else None)
            rows[-1]["treebank"] = treebank
    return rows


def longest_input(config: PreTrainedConfig) -> int:
    """The most words or pieces that a parser reads at once."""
    return getattr(config, "max_pieces", None) or config.max_words


def encode_paragraph(
    paragraph: dict, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, labels: dict[str, int] | None
) -> dict:
    """Running text: words without heads to learn."""
    words = paragraph["words"]
    row = {**encode(words, tokenizer), "heads": [-1] * len(words)}
    row["length"] = len(row["input_ids"])
    row["labels"] = ids_of(paragraph["deprels"], labels, words, IGNORE_INDEX)  # counted, as words to learn from
    row |= {"sentence_starts": paragraph["sentence_starts"], "punctuation": [False] * len(words), "left_out": None}
    longest = longest_input(config)
    return row if row["length"] <= longest else {"left_out": f"running text of more than {longest} word pieces"}


def encode_sentence(
    sentence: dict,
    tokenizer: PreTrainedTokenizerBase,
    config: PreTrainedConfig,
    labels: dict[str, int] | None,
    tags: dict[str, int] | None,
    columns: dict[str, dict[str, int]],
) -> dict:
    row = {**encode(sentence["words"], tokenizer), "heads": sentence["heads"]}
    row["length"] = len(row["input_ids" if getattr(config, "max_pieces", None) else "heads"])  # some read words
    row["labels"] = ids_of(sentence["deprels"], labels, row["heads"], IGNORE_INDEX)
    for name, ids in columns.items():
        row[name] = ids_of(sentence[name], ids, row["heads"], IGNORE_INDEX)
    if tags is not None:
        row["tag_ids"] = ids_of(sentence["tags"], tags, row["heads"], -1)
    if "initial_heads" in sentence:
        row["initial_heads"] = sentence["initial_heads"]
        row["initial_deprels"] = ids_of(sentence["initial_deprels"], labels, row["heads"], IGNORE_INDEX)
    return row


def beside(words: list[str], config: PreTrainedConfig, treebank: str | None) -> dict[str, list]:
    """What a model reads of words beside their pieces. A treebank that it does not know is read as the first."""
    treebanks = config.abilities.treebanks
    treebank_id = 0 if treebanks else None
    if treebank in treebanks:
        treebank_id = treebanks.index(treebank)
    return encode_beside(words, config.abilities.read_beside, treebank_id)


def load_teacher(
    args: ParsingModelArguments, config: PreTrainedConfig, training_args: ParsingTrainingArguments
) -> Teacher | None:
    """The teacher of a parser, if there is one. Raises `ValueError` if it cannot be a teacher."""
    if args.teacher is None:
        return None
    if not isinstance(config, RNGTransformerConfig):
        raise ValueError("--teacher is for a rng_transformer: others do not predict all arcs at once")
    model = load_trained(args.teacher, AutoModelForDependencyParsing, "parser", {}, args.trust_remote_code)
    if not isinstance(model.config, RNGTransformerConfig) or model.config.num_tags:
        raise ValueError(f"--teacher {args.teacher}: not a rng_transformer that reads words alone")
    model.to(training_args.device, torch.bfloat16 if training_args.bf16 else torch.float32)
    return Teacher(model, config, args.teacher_columns, args.teacher_weight)


def with_teacher(
    rows: Dataset,
    sentences: Dataset,
    config: PreTrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    corpora: Corpora,
) -> Dataset:
    """The rows with what a teacher reads of the sentences."""
    features = {f"{TEACHER}{name}": kind for name, kind in read_features(tokenizer, config).items()}
    read = corpora.encode(sentences, partial(encode_taught, config=config, max_length=max_length), tokenizer, features)
    return concatenate_datasets([rows, read], axis=1)


def encode_taught(
    sentences: list[dict], tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, max_length: int
) -> list[dict]:
    """What a teacher reads of sentences. `ValueError` for one of at most `max_length` words that it cannot read."""
    rows = []
    for sentence in sentences:
        words = sentence["words"]
        row = encode(words, tokenizer)
        longest = longest_input(config)
        if len(row["input_ids"]) > longest and len(words) <= max_length:
            raise ValueError(
                f"--teacher reads at most {longest} words or pieces; a training sentence has "
                f"{len(row['input_ids'])}: give a smaller --max_length, which leaves longer sentences out"
            )
        row |= beside(words, config, sentence["treebank"])
        rows.append({f"{TEACHER}{name}": value for name, value in row.items()})
    return rows


def ids_of(names: list[str] | None, ids: dict[str, int] | None, words: list, unknown: int) -> list[int]:
    """The numbers of names, one a word; 0 where there are no numbers."""
    if ids is None:
        return [0] * len(words)
    return [unknown] * len(words) if names is None else [ids.get(name, unknown) for name in names]


def paragraphs(
    files: list[str], treebanks: list[str], tokenizer, config: PreTrainedConfig, corpora: Corpora, options: dict
) -> list[Dataset]:
    """Running text of the files that mark paragraphs, encoded; none if there are no such files."""
    marked = [any(line.startswith(PARAGRAPHS) for _, line in numbered_lines(file)) for file in files]
    if not any(marked):
        return []
    reading = Reading(read_paragraphs, FEATURES | {"sentence_starts": NUMBERS})
    text = read_treebanks(list(compress(files, marked)), list(compress(treebanks, marked)), corpora, reading)
    return [to_dataset(text, tokenizer, config, corpora, **options)]


def name_treebanks(args: ParsingDataArguments, files: dict[str, list[str]]) -> dict[str, list[str]]:
    """
    The name of each file's treebank, by parts; none if they are not told apart. `ValueError` if there is not a name
    for each training file, or an option about treebanks has no effect.
    """
    treebanks = {part: treebanks_of(names) for part, names in files.items()}
    folders = [name for name in args.train_file or () if os.path.isdir(name)]
    if args.treebanks and folders:
        raise ValueError(f"--treebanks is for training files: the treebanks of {folders[0]} have names")
    if args.treebanks and len(args.treebanks) != len(files["train"]):
        raise ValueError(
            f"--treebanks names {len(args.treebanks)} treebanks, one for each training file: there are "
            f"{len(files['train'])}"
        )
    if not folders:
        treebanks["train"] = args.treebanks
    if not 0 <= args.sampling_power <= 1:
        raise ValueError(f"--sampling_power must be between 0 and 1, not {args.sampling_power}")
    if args.sampling_power != 1 and len({*treebanks["train"]}) < 2:
        raise ValueError("--sampling_power needs several training treebanks: a folder of them, or --treebanks")
    if args.tell_treebank and not (treebanks["validation"] or treebanks["test"]):
        raise ValueError("--tell_treebank needs files to evaluate that have names like de_gsd-ud-dev.conllu")
    return treebanks


def treebank_settings(model_type: str, args: ParsingDataArguments, treebanks: list[str]) -> dict:
    """Settings of a new parser by its training treebanks: those of folders it need not be told."""
    names = list(dict.fromkeys(treebanks))
    if args.treebanks:
        return {"treebanks": names}
    if names and hasattr(config_class_of(model_type), "treebanks"):
        return {"treebanks": [ANY, *names], "treebank_dropout": 0.5}
    return {}


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    files = {part: find_files(getattr(data_args, f"{part}_file"), name) for part, name in PARTS.items()}
    corpora = Corpora(data_args, training_args)
    treebanks = name_treebanks(data_args, files)
    trees = {part: read_trees(names, corpora, treebanks[part]) for part, names in files.items() if names}
    if not model_args.model_name_or_path:
        settings = treebank_settings(model_args.model_type, data_args, treebanks["train"]) | settings
        if model_args.use_lexicon:
            settings = lexicon_of(files["train"]) | settings
    tokenizer = load_tokenizer(model_args, trees.get("train"))
    model = load_model(model_args, settings, tokenizer, trees.get("train"))
    tokenizer.model_max_length = model.config.max_words
    logger.info("%d words or pieces, %d parameters", len(tokenizer), model.num_parameters())
    if "learning_rate" in training_args.given and not (model_args.encoder or model_args.model_name_or_path):
        logger.warning("--learning_rate has no effect: a parser from scratch learns at --new_learning_rate")
    unknown = {*data_args.treebanks} - {*model.config.abilities.treebanks}
    if unknown:
        raise ValueError(f"--treebanks: this parser does not know {', '.join(sorted(unknown))}")
    if data_args.tell_treebank and not model.config.abilities.treebanks:
        raise ValueError("--tell_treebank has no effect: this parser does not tell treebanks apart")
    if len({*treebanks["validation"]}) > 1 and "metric_for_best_model" not in training_args.given:
        training_args.metric_for_best_model = f"mean_{training_args.metric_for_best_model}"
    if not model.config.labelled:
        training_args.metric_for_best_model = training_args.metric_for_best_model.replace("las", "uas")

    teacher = load_teacher(model_args, model.config, training_args)
    datasets = dict.fromkeys(files)
    if data_args.initial_train_file and not getattr(model.config, "num_rounds", 0):
        raise ValueError("--initial_train_file is for a rng_transformer: others read no given trees")
    for purpose, sentences in trees.items():
        sentences = with_initial_trees(sentences, getattr(data_args, f"initial_{purpose}_file"), corpora)
        options = {"punctuation_by": data_args.punctuation_by}
        options["tell_treebank"] = purpose == "train" or data_args.tell_treebank
        options["max_length"] = data_args.max_length if purpose == "train" else None
        parts = [to_dataset(sentences, tokenizer, model.config, corpora, **options)]
        if purpose == "train" and teacher is not None:
            read = own_tokenizer(teacher.model, model_args.trust_remote_code)
            parts = [with_teacher(parts[0], sentences, teacher.model.config, read, data_args.max_length, corpora)]
        if model.config.abilities.segments:
            parts += paragraphs(files[purpose], treebanks[purpose], tokenizer, model.config, corpora, options)
        datasets[purpose] = without_unusable(concatenate_datasets(parts), purpose)
    trainer = ParsingTrainer(
        model=model,
        args=training_args,
        train_dataset=datasets["train"],
        eval_dataset=datasets["validation"],
        data_collator=ParsingCollator(
            tokenizer.pad_token_id, predicted=tuple(getattr(model.config, "columns", 0) or ())
        ),
        processing_class=tokenizer,
        callbacks=callbacks(training_args) if datasets["train"] else [],
        max_tokens=data_args.max_tokens,
        sampling_power=data_args.sampling_power,
        new_parameters=new_parameters(model, model_args),
        new_learning_rate=training_args.new_learning_rate,
        teacher=teacher,
    )
    train_and_evaluate(trainer, datasets["test"], model_args, data_args)


if __name__ == "__main__":
    run(main, "run_parsing.py")
