# /// script
# requires-python = ">=3.11"
# dependencies = ["hf_structure[train]"]
# ///
"""
Train a causal language model that reads dependency graphs or constituency trees and predicts them.

    accelerate launch examples/run_clm.py --model_type gilt \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/gilt

`--model_type` is `gilt` (graphs), `pushdown` (trees), `transformer_grammar` (`--formalism constituency` or
`dependency`, see docs/transformer-grammars.md), or a baseline without structures: `transformer-xl` (the same
backbone) or `transformer-xl-large` (as many layers as give it at least GiLT's parameters). With `--base_model gpt2`
graphs, or with `--model_type pushdown` trees, are grafted on a pretrained model instead (see docs/own-bases.md), on
its last `--graph_layers` or `--stack_layers`, or on listed layers (`3,7,11`); with 0 layers it is only trained
further. Causal language models of transformers are trained, too (`--model_type llama`, or `--model_name_or_path`), on
request with a loss of trees (`--tree_loss`, see docs/tree-losses.md). Graphs are the trees of CoNLL-U files
(`--annotation enhanced`: their enhanced graphs) or the graphs of SDP 2015, JSON or MRP files, by the suffix;
constituency trees are read from brackets, or made from the trees of CoNLL-U files (see docs/pushdown.md); baselines
take any text. A new model gets a tokenizer of subwords trained on its training text.

The names of the results say which structures the model was given: `perplexity_gold_graphs` is not a perplexity of text
alone, because the annotated graphs reveal some of it; `perplexity_predicted_graphs` is one, with the graphs that the
model builds as it reads. The same goes for `perplexity_gold_trees` and `perplexity_predicted_trees`.

Text is prepared once, in `--preprocessing_num_workers` processes, and kept in the cache of `datasets`; memory use does
not grow with it. `--dataset_name` takes training text from the Hub or from a folder, `--streaming --max_steps N`
streams it: see docs/training.md.

`--trees random`, `shuffled`, `left`, `right` or `balanced` are controls: the model is trained and evaluated with trees
that say nothing about the sentences (see docs/transformer-grammars.md#controls).

`--pause_tokens K` gives a baseline K learned tokens after each word, as many extra steps as structures may take; they
are neither predicted nor counted, in training and in all scores.

The defaults are the optimiser and schedule of the paper; `--config` takes a file with the sizes and settings of a
model (see `examples/configs`), which further options override. An interrupted run resumes from its last complete
checkpoint when the same command is repeated. On several GPUs, `accelerate launch` starts one process each; `torchrun
--nproc_per_node 2 examples/run_clm.py ...` starts two on a CPU.

Without a training file, a trained model is evaluated:

    python examples/run_clm.py --model_name_or_path runs/gilt --test_file test.conllu --output_dir runs/gilt
"""

import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from datasets import Dataset, Value
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import hf_structure
from hf_structure.corpora.binary_trees import load_binary_trees, load_constituents, load_projective_trees
from hf_structure.corpora.collators import CausalCollator
from hf_structure.corpora.corpus import column_numbers
from hf_structure.exporting.families import is_registered, model_classes
from hf_structure.hub.suggestions import did_you_mean
from hf_structure.models.abilities import abilities_of
from hf_structure.models.annotations import Annotate, annotation_class, annotation_of
from hf_structure.models.families import FAMILIES, families_of
from hf_structure.parsing.loading import load_trained, read_config, read_tokenizer
from hf_structure.text.bracket_tree import UNLABELLED
from hf_structure.text.formats import load_sentences
from hf_structure.text.graphs import ANNOTATIONS, load_graphs
from hf_structure.text.pauses import insert_pauses, pause_token_ids
from hf_structure.text.tokenization import SUBWORD_KINDS, encode_subwords, train_subword_tokenizer
from hf_structure.text.words import WORD_TOKENIZERS
from hf_structure.training.arguments import ModelArguments, RunArguments, option
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.controls import GOLD, SHUFFLED, TREES, control_reading, shuffle_trees
from hf_structure.training.corpora import NUMBER, NUMBERS, PAIRS, STRINGS, Corpora, Reading, words_of
from hf_structure.training.scripts import (
    begin,
    callbacks,
    check_lengths,
    check_settings,
    config_class_of,
    new_config,
    readable_settings,
    run,
    save_whole,
    train_and_evaluate,
)
from hf_structure.training.streaming import TextArguments, check_streaming, read_training_text, stream_training_text
from hf_structure.training.trainers.structured_lm import StructuredLMTrainer, base_parameters
from hf_structure.training.tree_losses import (
    PLANTED,
    PLANTED_COLUMNS,
    TreeLossArguments,
    TreePlanting,
    TreeRegularization,
    annotate_parents,
    check_tree_loss,
    make_tree_loss,
    planting_collator,
    read_trees,
)

logger = logging.getLogger("run_clm")

STRUCTURE_OPTIONS = ("graph_layers", "stack_layers", "formalism", "composition")  # settings of families, as options
COLUMN_TYPES = {list[int]: NUMBERS, list[list[int]]: PAIRS, bytes: Value("binary")}
VARIANTS = families_of("causal_lm")
BASELINES = FAMILIES["gilt"].baselines
PURPOSE = "causal language model"


@dataclass
class CLMModelArguments(ModelArguments):
    """Options of the model."""

    base_model: str | None = option(None, "Pretrained language model to graft structures on (folder or Hub name).")
    graph_layers: str | None = option(
        None, "Number of layers that read graphs, from the last, or their indices (3,7,11); default: all, 0: none."
    )
    stack_layers: str | None = option(None, "Layers that read the stack of a Pushdown-LM, in the same form.")
    formalism: str | None = option(
        None, "Trees of a transformer grammar; by default constituency.", choices=["constituency", "dependency"]
    )
    composition: str | None = option(
        None, "How it reads them; by default compose.", choices=["none", "heads", "compose"]
    )
    attn_implementation: str | None = option(
        None, "Attention of the model, such as sdpa or eager; by default the fastest that there is."
    )
    pause_tokens: int = option(
        0, "Tokens after each word that a new baseline reads, but that are neither predicted nor counted."
    )
    tokenizer_name: str | None = option(
        None,
        "unigram or bpe for subwords trained on the text, or a tokenizer (folder or Hub name); by default the "
        "tokenizer of the base model, if any.",
    )
    tokenizer_type: str = option(
        "unigram", "Kind of tokenizer that is trained if none is given.", choices=list(SUBWORD_KINDS)
    )
    vocab_size: int = option(8000, "Size of the vocabulary of a new tokenizer.")
    word_tokenizer: str = option(
        "english", "Rule that splits raw text into words as in the data.", choices=list(WORD_TOKENIZERS)
    )


@dataclass
class CLMDataArguments(TextArguments):
    """Options of the data."""

    of_evaluation: ClassVar[tuple[str, ...]] = (
        *TextArguments.of_evaluation,
        *("annotation", "trees", "max_predicted_sentences"),
    )

    annotation: str = option("basic", "Graphs of CoNLL-U files: trees or enhanced graphs.", choices=list(ANNOTATIONS))
    trees: str = option(
        "gold",
        "Trees of the sentences: of their file (gold, or parser if a parser made it), or controls that say nothing "
        "about them: random, of other sentences of the same length (shuffled), branching or chains, balanced.",
        choices=list(TREES),
    )
    cache_tapes: bool = option(True, "Compute the tapes of graphs once and store them (3 bytes per pair of words).")
    max_predicted_sentences: int = option(
        200, "Number of sentences, spread over the text, for which evaluation predicts structures."
    )


@dataclass
class CLMTrainingArguments(TreeLossArguments, RunArguments):
    """`TrainingArguments` with the defaults of the GiLT paper."""

    ignored: ClassVar[dict[str, str]] = RunArguments.ignored | {
        "label_smoothing_factor": "the loss is the models' own, with that of structures"
    }
    needs: ClassVar[dict[str, str]] = {
        **RunArguments.needs,
        **TreeLossArguments.tree_loss_needs,
        "lm_only_warmup_steps": "lm_only_steps",
    }

    learning_rate: float = option(1.5e-4, "Highest learning rate of AdamW.")
    base_learning_rate: float = option(3e-5, "Highest learning rate of the parameters of a pretrained model.")
    lm_only_steps: int = option(
        0, "Steps of a first phase, with a schedule of its own, in which the scorer of structures is not trained."
    )
    lm_only_warmup_steps: float = option(0.4, "Warm-up steps of that phase, or their share if below 1.")
    weight_decay: float = option(0.0, "Weight decay of AdamW.")
    max_grad_norm: float = option(3.0, "Maximum norm of the gradient.")
    num_train_epochs: float = option(4, "Number of passes over the training text.")
    lr_scheduler_type: str = option("cosine", "Schedule of the learning rates.")


def parse_arguments() -> tuple[CLMModelArguments, CLMDataArguments, CLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    model_args, data_args, training_args, settings = parse_command_line(
        (CLMModelArguments, CLMDataArguments, CLMTrainingArguments),
        description=__doc__,
        example="[--model_type gilt | --base_model gpt2]",
    )
    choose_tokenizer(model_args)
    has_tokenizer = model_args.model_name_or_path or model_args.base_model or model_args.tokenizer_name
    check_streaming(data_args, training_args, bool(has_tokenizer))
    if model_args.base_model:
        settings.setdefault("model_type", "gilt")
    if "model_type" in settings and not model_args.model_name_or_path:
        check_family(settings["model_type"])
    if model_args.base_model and (settings["model_type"] in BASELINES or is_plain(settings["model_type"])):
        raise ValueError("--base_model is grafted on: give --model_type gilt, pushdown or transformer_grammar")
    return model_args, data_args, training_args, settings | structure_settings(model_args)


def structure_settings(args: CLMModelArguments) -> dict[str, Any]:
    """The settings of families that are given as options."""
    given = {name: getattr(args, name) for name in STRUCTURE_OPTIONS}
    settings = {name: value for name, value in given.items() if value is not None}
    for name in ("graph_layers", "stack_layers"):
        if name in settings:
            settings[name] = chosen_layers(name, settings[name])
    return settings


def chosen_layers(name: str, value: str | int) -> int | list[int]:
    """Parses a number of layers, or a list of layers. Raises `ValueError` for anything else."""
    try:
        numbers = [int(number) for number in str(value).split(",")]
    except ValueError:
        raise ValueError(f"--{name} {value}: give a number of layers, or the numbers of some from 0 on: 3,7") from None
    return numbers if len(numbers) > 1 else numbers[0]


def choose_tokenizer(args: CLMModelArguments) -> None:
    """Reads `--tokenizer_name unigram` as `--tokenizer_type`. Raises `ValueError` if the model has a tokenizer."""
    kind = args.tokenizer_name
    if kind == "words":
        raise ValueError(f"--tokenizer_name words: a causal model reads subwords, {' or '.join(SUBWORD_KINDS)}")
    if kind in SUBWORD_KINDS:
        if args.base_model or args.model_name_or_path:
            raise ValueError(f"--tokenizer_name {kind} is for a new model: one that is trained has its own")
        args.tokenizer_type = kind
        args.tokenizer_name = None


def is_plain(name: str) -> bool:
    """Returns True for a family of causal language models of transformers."""
    return name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def check_family(name: str) -> None:
    """
    Raises `ValueError` unless this is a family of causal language models, of the package, the user or transformers.
    """
    is_own = name in CONFIG_MAPPING and is_registered(CONFIG_MAPPING[name])
    if name in VARIANTS or is_plain(name):
        return
    if not (is_own and "AutoModelForCausalLM" in model_classes(CONFIG_MAPPING[name])):
        choices = ", ".join(VARIANTS)
        suggestion = did_you_mean(name, [*VARIANTS, *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES])
        raise ValueError(
            f"there is no model family {name!r}: choose one of {choices}, or one of transformers{suggestion}"
        )


def structure_of(args: CLMModelArguments, settings: dict) -> str | None:
    """
    Returns the kind of structures that the requested model reads: `"graphs"`, binary `"trees"`, `"constituency"` or
    `"dependency"` trees, or None.
    """
    if args.model_name_or_path:
        trust = {"trust_remote_code": args.trust_remote_code}
        config = read_config(hf_structure.resolve_model(args.model_name_or_path, **trust), PURPOSE, **trust)
    elif settings.get("model_type") in BASELINES:
        return None
    else:
        config = config_class_of(settings.get("model_type", "gilt"))
    annotation = annotation_class(config)
    if annotation is None:
        return None
    return annotation.source(settings.get(annotation.setting, getattr(config, annotation.setting)))


def how_to_read(
    model_args: CLMModelArguments, args: CLMDataArguments, structure: str | None, tree_loss: str | None
) -> Reading:
    """Returns how text is read, with structures for the model. Raises `ValueError` if the text cannot have any."""
    if structure is None:
        # Regularization reads its trees by itself.
        if args.trees not in GOLD and tree_loss != "treereg":
            raise ValueError(f"--trees {args.trees}: this model reads no structures")
        return Reading(load_sentences, {"words": STRINGS}, WORD_TOKENIZERS[model_args.word_tokenizer])
    if args.dataset_name:
        raise ValueError(f"--dataset_name has no {structure}, which this model reads: parse it, and give the file")
    if structure == "trees":
        return Reading(load_binary_trees, {"words": STRINGS, "spans": PAIRS})
    if structure == "constituency":
        return Reading(load_constituents, {"words": STRINGS, "spans": PAIRS, "labels": STRINGS})
    if structure == "dependency":
        return Reading(load_projective_trees, {"words": STRINGS, "heads": NUMBERS})
    return Reading(partial(load_graphs, annotation=args.annotation), {"words": STRINGS, "arcs": PAIRS})


def load_tokenizer(
    model_args: CLMModelArguments,
    data_args: CLMDataArguments,
    args: CLMTrainingArguments,
    sentences: Dataset | None,
    corpora: Corpora,
) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of the trained or base model, or a given one, or trains a new one."""
    name = model_args.tokenizer_name or model_args.base_model
    trust = {"trust_remote_code": model_args.trust_remote_code}
    if model_args.model_name_or_path:
        name = hf_structure.resolve_model(model_args.model_name_or_path, **trust)
    if not name:
        if data_args.vocabulary_file:
            sentences = corpora.read(data_args.vocabulary_file, Reading(load_sentences, {"words": STRINGS}))
        # Other processes wait and then read the tokenizer that the main one has saved.
        with args.main_process_first(local=False):
            name = train_tokenizer(model_args, args.output_dir, sentences)
    tokenizer = read_tokenizer(name, **trust)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.bos_token
    if not model_args.model_name_or_path:
        # Saved with the tokenizer, so that parsing and scoring split text in the same way.
        tokenizer.init_kwargs["word_tokenizer"] = model_args.word_tokenizer
    return tokenizer


def add_pauses(args: CLMModelArguments, structure: str | None, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Adds the pauses of a new baseline to its tokenizer, and returns their ids. Raises `ValueError` for others."""
    if not args.pause_tokens:
        return []
    if args.model_name_or_path:
        raise ValueError("--pause_tokens is for a new model: one that is trained has its own")
    if structure is not None or args.pause_tokens < 0:
        raise ValueError(
            "--pause_tokens: give a number, 1 or more, for a model without structures: --model_type transformer-xl, "
            "or --base_model with --graph_layers 0"
        )
    names = [f"<pause{number}>" for number in range(1, args.pause_tokens + 1)]
    tokenizer.add_tokens(names, special_tokens=True)
    return cast(list[int], tokenizer.convert_tokens_to_ids(names))


def set_pauses(model: PreTrainedModel, pauses: list[int]) -> None:
    """Stores the ids of pauses in a new model's configuration, and in its base model's, if any."""
    for config in (model.config, getattr(model.config, "base_config", None)):
        if pauses and config is not None:
            config.pause_token_ids = pauses


def train_tokenizer(args: CLMModelArguments, output_dir: str, sentences: Dataset) -> str:
    """
    Returns the folder of a tokenizer for these sentences, which is trained unless it exists: training is not
    deterministic, but all processes of a run, and a resumed run, need the same tokenizer.
    """
    text = checksum(words_of(sentences))
    folder = Path(output_dir, f"tokenizer-{args.tokenizer_type}-{args.vocab_size}-{text:08x}")
    if not folder.exists():
        options = {"vocab_size": args.vocab_size, "kind": args.tokenizer_type}
        save_whole(folder, train_subword_tokenizer(words_of(sentences), **options))
    return str(folder)


def checksum(sentences: Iterable[list[str]]) -> int:
    """Computes the checksum of a list of sentences as JSON, without holding the JSON in memory."""
    total = zlib.crc32(b"[")
    for number, words in enumerate(sentences):
        total = zlib.crc32(f"{', ' if number else ''}{json.dumps(words)}".encode(), total)
    return zlib.crc32(b"]", total)


def load_model(args: CLMModelArguments, settings: dict, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Loads a trained model, grafts one, or makes a new one. Raises `ValueError` for tokens that it lacks."""
    if args.model_name_or_path:
        model = load_trained(args.model_name_or_path, AutoModelForCausalLM, PURPOSE, settings, args.trust_remote_code)
    elif args.base_model:
        model = graft(args.base_model, settings)
        if args.pause_tokens:
            model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size))
    else:
        model = new_model(settings, tokenizer)
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens, but the model {model.config.vocab_size}")
    if args.attn_implementation is not None:
        model.set_attn_implementation(args.attn_implementation)
    return model.float()  # the weights; --bf16 computes in half precision


def graft(base_model: str, settings: dict) -> PreTrainedModel:
    """Grafts structures on the last layers of a pretrained language model."""
    settings = dict(settings)
    name = settings.pop("model_type")
    check_settings(name, settings)
    with readable_settings():
        return AutoModelForCausalLM._model_mapping[config_class_of(name)].from_pretrained_lm(base_model, **settings)


def new_model(settings: dict, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Makes a new model."""
    settings = dict(settings)
    name = settings.pop("model_type", None)
    if not name:
        raise ValueError("--model_type, --base_model, --model_name_or_path or a --config with a model_type is needed")
    baseline = BASELINES.get(name, {})
    special = ["pad", "bos", "eos"]
    # Models of transformers do not train the embedding of their padding token, which may also begin texts.
    if is_plain(name) and tokenizer.pad_token_id in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        special.remove("pad")
    config = new_config("gilt" if name in BASELINES else name, settings, tokenizer, special)
    if name == "transformer-xl-large":
        config.num_hidden_layers = layers_to_match(config, baseline)
    for setting, value in baseline.items():
        setattr(config, setting, value)
    return AutoModelForCausalLM.from_config(config)


def layers_to_match(config: PreTrainedConfig, baseline: Mapping[str, Any]) -> int:
    """Returns the smallest depth at which a baseline has the parameters of the model with structures."""

    def parameters(**changes: Any) -> int:
        # Parameters are counted without memory for them.
        with torch.device("meta"):
            changed = type(config).from_dict(config.to_dict() | changes)
            return AutoModelForCausalLM.from_config(changed).num_parameters()

    layers = config.num_hidden_layers
    target = parameters()
    # Layers are few: no need to search faster.
    while parameters(num_hidden_layers=layers, **baseline) < target:
        layers += 1
    logger.info("%d layers instead of %d", layers, config.num_hidden_layers)
    return layers


def set_labels(settings: dict, sentences: Dataset | None) -> None:
    """Gives a new model the labels of the training constituents, unless the settings name labels."""
    if sentences is not None and "labels" in sentences.column_names and "labels" not in settings:
        found = {label for labels in sentences["labels"] for label in labels}
        settings["labels"] = sorted(found - {UNLABELLED}) or None


def set_tokenizer_settings(settings: dict, tokenizer: PreTrainedTokenizerBase) -> None:
    """Gives a new model the settings that depend on its tokenizer, unless they are given."""
    if settings.get("model_type") in CONFIG_MAPPING:
        annotation = annotation_class(CONFIG_MAPPING[settings["model_type"]])
        for name, value in ({} if annotation is None else annotation.new_settings(tokenizer)).items():
            settings.setdefault(name, value)


def encode_sentences(
    sentences: list[dict],
    tokenizer: PreTrainedTokenizerBase,
    annotate: Annotate | None = None,
    pauses: Sequence[int] = (),
) -> list[dict]:
    """
    Encodes sentences, with the columns of the annotation for a model that reads structures, or with pauses after each
    word.
    """
    encoded = [encode_subwords(sentence["words"], tokenizer) for sentence in sentences]
    if pauses:
        encoded = [{"input_ids": insert_pauses(row["input_ids"], row["word_ids"], pauses)[0]} for row in encoded]
    structures = [{}] * len(sentences) if annotate is None else annotate(sentences, encoded)
    rows = []
    for sentence, tokens, columns in zip(sentences, encoded, structures, strict=True):
        rows.append({**tokens, "length": len(tokens["input_ids"]), "num_words": len(sentence["words"]), **columns})
    return rows


def to_dataset(
    sentences: Dataset, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, cache_tapes: bool, corpora: Corpora
) -> Dataset:
    """
    Encodes a data set, see [`encode_sentences`], with its trees if it was read as `PLANTED`. Raises `ValueError` for a
    sentence that is too long.
    """
    features = {"input_ids": NUMBERS, "length": NUMBER, "num_words": NUMBER}
    encode = partial(encode_sentences, pauses=pause_token_ids(model.config))
    annotation = annotation_of(model.config)
    if annotation is not None:
        columns = [name for name in annotation.columns if cache_tapes or name not in annotation.computed_inputs]
        features |= {name: COLUMN_TYPES[annotation.columns[name]] for name in columns}
        encode = partial(encode_sentences, annotate=annotation.annotate(in_advance=cache_tapes))
    elif "parents" in sentences.column_names:
        features |= PLANTED_COLUMNS
        encode = partial(encode_sentences, annotate=annotate_parents)
    dataset = corpora.encode(sentences, encode, tokenizer, features)
    check_lengths(column_numbers(dataset, "length"), abilities_of(model.config).max_tokens)
    return dataset


def build_trainer(
    model, tokenizer, train, validation, reading, data_args, training_args, tree_loss=None
) -> StructuredLMTrainer:
    """Makes the trainer, with the paper's learning rates."""
    check_learning_rates(model, training_args)
    annotation = annotation_of(model.config)
    pauses = pause_token_ids(model.config)
    annotate = None if annotation is None else annotation.annotate()
    if annotation is not None:
        collator = annotation.collator(tokenizer.pad_token_id)
    elif isinstance(tree_loss, TreePlanting):
        collator = planting_collator(tokenizer.pad_token_id)
        annotate = annotate_parents
    else:
        collator = CausalCollator(tokenizer.pad_token_id, unpredicted=pauses)
    if data_args.streaming:
        encode = partial(encode_sentences, tokenizer=tokenizer, annotate=annotate, pauses=pauses)
        longest = abilities_of(model.config).max_tokens
        train = stream_training_text(data_args, training_args, reading, encode, collator, longest)
    return StructuredLMTrainer(
        model=model,
        args=training_args,
        train_dataset=train,
        eval_dataset=validation,
        data_collator=collator,
        processing_class=tokenizer,
        callbacks=callbacks(training_args) if train is not None else [],
        max_tokens=data_args.max_tokens,
        max_sentences=data_args.max_sentences,
        base_learning_rate=training_args.base_learning_rate,
        lm_only_steps=training_args.lm_only_steps,
        lm_only_warmup_steps=training_args.lm_only_warmup_steps,
        max_predicted_sentences=data_args.max_predicted_sentences,
        tree_loss=tree_loss,
    )


def check_learning_rates(model: PreTrainedModel, training_args: CLMTrainingArguments) -> None:
    """Warns of a learning rate on the command line that applies to no parameter."""
    count = len(base_parameters(model))
    if not count and "base_learning_rate" in training_args.given:
        logger.warning("--base_learning_rate has no effect: no parameter comes from a base model")
    if count == len(list(model.parameters())) and "learning_rate" in training_args.given:
        logger.warning("--learning_rate has no effect: all parameters come from a base model (--base_learning_rate)")


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    corpora = Corpora(data_args, training_args)
    structure = structure_of(model_args, settings)
    check_tree_loss(training_args, data_args, structure, model_args.pause_tokens)
    reading = how_to_read(model_args, data_args, structure, training_args.tree_loss)
    if structure is not None:
        reading = control_reading(reading, data_args, training_args.seed)
    # Only tree-planting needs trees of the text that the model reads.
    training_reading = PLANTED if training_args.tree_loss == "planting" else reading
    train = read_training_text(corpora, data_args, training_reading)
    others = (data_args.validation_file, data_args.test_file)
    sets = [train, *(corpora.read(files, reading) if files else None for files in others)]
    if data_args.trees == SHUFFLED and structure is not None:
        sets = [each and shuffle_trees(each, training_args.seed) for each in sets]
    tokenizer = load_tokenizer(model_args, data_args, training_args, train, corpora)
    if not model_args.model_name_or_path:
        set_labels(settings, train)
        set_tokenizer_settings(settings, tokenizer)
    pauses = add_pauses(model_args, structure, tokenizer)
    model = load_model(model_args, settings, tokenizer)
    set_pauses(model, pauses)
    tree_loss = make_tree_loss(training_args, model)
    # Saved with the tokenizer, for tools that truncate by it.
    if (longest := abilities_of(model.config).max_tokens) is not None:
        tokenizer.model_max_length = longest
    logger.info("%d tokens, %d parameters", len(tokenizer), model.num_parameters())
    train, validation, test = (
        each and to_dataset(each, tokenizer, model, data_args.cache_tapes, corpora) for each in sets
    )
    if isinstance(tree_loss, TreeRegularization) and data_args.trains:
        read_trees(tree_loss, corpora, data_args, training_args, tokenizer, abilities_of(model.config).max_tokens)
    trainer = build_trainer(model, tokenizer, train, validation, training_reading, data_args, training_args, tree_loss)
    train_and_evaluate(trainer, test, model_args, data_args)


if __name__ == "__main__":
    run(main, "run_clm.py")
