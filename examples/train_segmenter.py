# /// script
# requires-python = ">=3.11"
# dependencies = ["hf_structure[train]"]
# ///
"""
Train the network that splits raw text into sentences, tokens and words, on a folder of treebanks, for a parser.

    python examples/train_segmenter.py --config segmenter --folder ud --parser model_cards/rngt-multilingual \\
        --dictionary words.tsv --output_dir runs/segmenter --use_cpu

Files of treebanks have the names of Universal Dependencies (`de_gsd-ud-train.conllu`, compressed or not). The text of
a treebank is that of its tokens and their `SpaceAfter`. Small treebanks have more weight (`--sampling_power`), and so
have those whose tokens are hard to find. Half of the texts are read without the name of their treebank. `--dictionary`
has words of Chinese and Japanese, which help where treebanks are small: on each line a word, a tab and its cost, which
grows as words become rarer, as in `cjdict.txt` of ICU (unicode-org/icu); words of more than `--max_cost` are left out.
Words without a cost, followed by nothing or a space, as in the dictionary of jieba, cost one more than `--max_cost`.
Vectors of characters begin as those of the parser's pieces. `--train_further` begins with the network that the parser
has, for which `--dictionary` may be another.

An interrupted run resumes from its last checkpoint when the same command is repeated. At the end, a linear layer on
the states of the finished network learns to tell languages apart (`parse(..., language="auto")`), from up to
`--language_sentences` sentences of each, and the tokens are listed that a language always splits, and how, with the
marks that are always words of their own between letters. The parser with the network is saved to the output folder, in
float16. `examples/evaluate_treebanks.py --raw` scores it. With `--languages_only`, a parser that has a network gets
this layer and these lists:

    python examples/train_segmenter.py --languages_only --folder ud --parser runs/segmenter \\
        --output_dir runs/segmenter-languages --use_cpu
"""

import argparse
import copy
import logging
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import HfArgumentParser, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from hf_structure.algorithms.characters import CharacterReader
from hf_structure.corpora.ud_folders import find_treebanks, treebank_files, treebank_name
from hf_structure.hub.compact import save_compact
from hf_structure.modules.character_segmenter import CharacterSegmenter
from hf_structure.parsing.loading import load_parser
from hf_structure.text.conllu import read_conllu
from hf_structure.text.raw_text import RawTextReader
from hf_structure.text.running import TextSentence, all_tokens, text_sentence
from hf_structure.training.dictionary import listed_characters, read_dictionary
from hf_structure.training.examples import config_file
from hf_structure.training.languages import draw_texts, fit_languages, language_of, language_report, mean_states
from hf_structure.training.scripts import load_object, run
from hf_structure.training.segmentation import (
    SegmentationData,
    SegmentationTrainer,
    collate,
    encode_treebank,
)
from hf_structure.training.token_splits import collect_habits, collect_marks, collect_rules, collect_splits

logger = logging.getLogger("train_segmenter")


@dataclass
class SegmenterArguments:
    """Options of the network and its text."""

    folder: str = field(metadata={"help": "the folder of treebanks"})
    parser: str = field(metadata={"help": "the parser that gets the network"})
    dictionary: list[str] = field(default_factory=list, metadata={"help": "files of words, with or without costs"})
    max_cost: int = field(default=105, metadata={"help": "cost of the rarest words to keep"})
    train_further: bool = field(default=False, metadata={"help": "begin with the network that the parser has"})
    sampling_power: float = field(default=0.5, metadata={"help": "1 draws texts by the size of treebanks"})
    row_length: int = field(default=384, metadata={"help": "characters of a text"})
    hidden_size: int = field(default=192, metadata={"help": "width of the network"})
    embedding_size: int = field(default=64, metadata={"help": "width of the vectors of characters"})
    dilations: list[int] = field(
        default_factory=lambda: [1, 2, 4, 8, 16, 32, 1], metadata={"help": "distances that the layers read over"}
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout in the layers"})
    languages_only: bool = field(
        default=False, metadata={"help": "only add what is known of languages to the network of the parser"}
    )
    language_sentences: int = field(default=400, metadata={"help": "most sentences to learn a language from"})


def read_treebanks(files: list[str]) -> dict[str, list[TextSentence]]:
    """The sentences of treebanks."""
    return {str(treebank_name(file)): list(map(text_sentence, read_conllu(file))) for file in files}


def settings_of(args: SegmenterArguments, treebanks: dict[str, list[TextSentence]]) -> dict:
    """The settings of a network for these treebanks."""
    sentences = [sentence for texts in treebanks.values() for sentence in texts]
    tokens = [(token, words) for token, words in all_tokens(sentences) if len(words) > 1]
    rules = collect_rules(tokens)
    return {
        "hidden_size": args.hidden_size,
        "embedding_size": args.embedding_size,
        "dilations": args.dilations,
        "dropout": args.dropout,
        "treebanks": ["any", *treebanks],
        "characters": listed_characters(sentence.text for sentence in sentences),
        "dictionary": read_dictionary(args.dictionary, args.max_cost),
        "rules": rules,
        "splits": collect_splits(tokens, rules),
    }


def further_settings(args: SegmenterArguments, settings: dict, treebanks: list[str]) -> dict:
    """The settings of a trained network that is trained further. Raises `ValueError` if it is for other treebanks."""
    if settings["treebanks"] != ["any", *treebanks]:
        other = sorted({*settings["treebanks"][1:]} ^ {*treebanks})
        raise ValueError(f"--train_further needs the treebanks of the network, in their order; different: {other}")
    if not args.dictionary:
        return settings
    return settings | {"dictionary": read_dictionary(args.dictionary, args.max_cost)}


def start_vectors(
    network: CharacterSegmenter, characters: str, parser: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Sets the vectors of characters that are pieces of the parser to their main components there."""
    vocabulary = tokenizer.get_vocab()
    listed = [(number, vocabulary[char]) for number, char in enumerate(characters, start=1) if char in vocabulary]
    rows, pieces = map(list, zip(*listed, strict=True))
    embeddings = parser.get_input_embeddings().weight[pieces].detach().to(torch.float32)
    centred = embeddings - embeddings.mean(0)
    width = network.characters.embedding_dim
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    reduced = centred @ directions[:width].T
    with torch.no_grad():
        network.characters.weight.normal_(std=0.5)
        network.characters.weight[rows] = 0.5 * reduced / reduced.std()


def save_parser(
    network: CharacterSegmenter,
    settings: dict,
    parser: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: str,
) -> None:
    """Saves the parser with the network, in float16."""
    # A copy: loaded models are shared.
    parser = copy.deepcopy(parser)
    parser.config.segmenter = settings
    parser.character_segmenter = network
    save_compact(parser, tokenizer, folder)


def parse_arguments() -> tuple[SegmenterArguments, TrainingArguments]:
    """Command line over `--config FILE` over defaults."""
    parser = HfArgumentParser(
        (SegmenterArguments, TrainingArguments),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", help="JSON file with 'options', or a name in examples/configs")
    if config := parser.parse_known_args()[0].config:
        parser.set_defaults(**load_object(config_file(config))["options"])
    args, training_args, *_ = parser.parse_args_into_dataclasses()
    if training_args.max_steps < 1 and not args.languages_only:
        raise ValueError("--max_steps is needed: the number of updates")
    if args.languages_only and args.train_further:
        raise ValueError("--languages_only trains no network: leave --train_further out")
    # The data set makes its own columns.
    training_args.remove_unused_columns = False
    return args, training_args


def train_network(
    args: SegmenterArguments,
    training_args: TrainingArguments,
    treebanks: dict[str, list[TextSentence]],
    parser: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> tuple[CharacterSegmenter, dict]:
    """Trains a new network, or that of the parser, and returns it with its settings."""
    if args.train_further:
        network, settings = trained_network(parser, args.parser)
        settings = further_settings(args, settings, list(treebanks))
    else:
        settings = settings_of(args, treebanks)
        network = CharacterSegmenter(settings)
        start_vectors(network, settings["characters"], parser, tokenizer)
    logger.info("%d parameters", sum(parameter.numel() for parameter in network.parameters()))
    read = CharacterReader(settings["characters"], settings["dictionary"])
    encoded = [encode_treebank(sentences, read, settings["rules"]) for sentences in treebanks.values()]
    size = training_args.max_steps * training_args.train_batch_size * training_args.gradient_accumulation_steps
    sampling = (args.row_length, args.sampling_power, network.gap, training_args.seed)
    data = SegmentationData(encoded, read(" ")[0], size, *sampling)
    trainer = SegmentationTrainer(network, training_args, train_dataset=data, data_collator=collate)
    Path(training_args.output_dir).mkdir(parents=True, exist_ok=True)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(training_args.output_dir))
    return network, settings


def trained_network(parser: PreTrainedModel, name: str) -> tuple[CharacterSegmenter, dict]:
    """A copy of the network that a parser has, with its settings. Raises `ValueError` if it has none."""
    if getattr(parser.config, "segmenter", None) is None:
        raise ValueError(
            f"{name} has no network over characters: train one, without --languages_only and --train_further"
        )
    # A copy: loaded models are shared.
    return copy.deepcopy(parser.character_segmenter), parser.config.segmenter


def add_languages(
    network: CharacterSegmenter, settings: dict, treebanks: dict[str, list[TextSentence]], most: int, seed: int
) -> dict:
    """
    Teaches a network to tell languages apart, by up to `most` sentences of each, and returns its new settings, with
    the habits of each language.
    """
    texts = draw_texts(texts_of(treebanks), most, seed)
    settings = settings | {"languages": sorted(texts), "habits": habits_of(treebanks, settings["rules"])}
    labels = [number for number, language in enumerate(settings["languages"]) for _ in texts[language]]
    sentences = [text for language in settings["languages"] for text in texts[language]]
    states = mean_states(network, settings, sentences)
    network.languages = fit_languages(states, torch.tensor(labels), len(texts))
    return settings


def habits_of(treebanks: dict[str, list[TextSentence]], rules: list[str]) -> dict[str, dict]:
    """How each language splits tokens."""
    sentences: dict[str, list[TextSentence]] = {}
    for name, found in treebanks.items():
        sentences.setdefault(language_of(name), []).extend(found)
    return {
        language: collect_habits(all_tokens(found), rules) | {"marks": collect_marks(found)}
        for language, found in sorted(sentences.items())
    }


def report_languages(network: CharacterSegmenter, settings: dict, texts: dict[str, list[str]]) -> str:
    """Reports how often the network finds the language of a sentence."""
    reader = RawTextReader(network, settings, languages=True)
    pairs = [(name, text) for name in texts for text in texts[name]]
    found = [reader.language_of(tokens)["language"] for tokens in reader([text for _, text in pairs])]
    return language_report(found, [language_of(name) for name, _ in pairs])


def texts_of(treebanks: dict[str, list[TextSentence]]) -> dict[str, list[str]]:
    """The texts of the sentences of treebanks that are not blank."""
    return {
        name: [each.text for each in sentences if not each.text.isspace()] for name, sentences in treebanks.items()
    }


def main() -> None:
    args, training_args = parse_arguments()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    set_seed(training_args.seed)
    treebanks = read_treebanks(treebank_files(args.folder, "train"))
    parser, tokenizer = load_parser(args.parser)
    if args.languages_only:
        network, settings = trained_network(parser, args.parser)
    else:
        network, settings = train_network(args, training_args, treebanks, parser, tokenizer)
    settings = add_languages(network, settings, treebanks, args.language_sentences, training_args.seed)
    save_parser(network, settings, parser, tokenizer, training_args.output_dir)
    if texts := texts_of(read_treebanks(find_treebanks(args.folder, "dev"))):
        logger.info(report_languages(network, settings, texts))


if __name__ == "__main__":
    run(main, "train_segmenter.py")
