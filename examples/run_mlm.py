# /// script
# requires-python = ">=3.11"
# dependencies = ["hf_structure[train]"]
# ///
"""
Train a masked language model that induces sentence structure, on raw or annotated text.

    accelerate launch examples/run_mlm.py --model_type udgn \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/udgn

`--model_type` is `udgn`, `structformer` or `transformer` (StructFormer's encoder with softmax attention and without a
parser, the baseline of its paper). Files are CoNLL-U, PTB brackets or text (one sentence a line, words separated by
spaces), by their suffix; several files may be given. Training reads the words only. Evaluation reports the masked
perplexity, UAS and UUAS if the validation file has dependency trees, and unlabelled F1 if it has constituents. The
defaults are the optimiser and schedule of the papers; `--config` takes a file with the sizes and settings of a
published model (see `examples/configs`), which further options override. The vocabulary is the words of the training
text, or with `--tokenizer_name unigram` or `bpe` subwords trained on it, or the subwords of a given tokenizer
(`--tokenizer_name gpt2 --mask_rate 0.15` in the StructFormer paper). An interrupted run resumes from its last complete
checkpoint when the same command is repeated. On several GPUs, `accelerate launch` starts one process each; `torchrun
--nproc_per_node 2 examples/run_mlm.py ...` starts two on a CPU.

Text is prepared once, in `--preprocessing_num_workers` processes, and kept in the cache of `datasets`; memory use does
not grow with it. `--dataset_name` takes training text from the Hub or from a folder, `--streaming --max_steps N`
streams it: see docs/training.md.

Without a training file, a trained model is evaluated:

    python examples/run_mlm.py --model_name_or_path runs/udgn --test_file test.conllu --output_dir runs/udgn

`--model_name_or_path` may also be a masked language model of another kind, such as BERT or its encoder alone, to be
trained further on a text (`--punctuation keep --mask_rate 0.15`), for example before it becomes a parser's encoder.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from datasets import Dataset
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase

import hf_structure
from hf_structure.corpora.collators import MaskedWordCollator
from hf_structure.models.abilities import abilities_of
from hf_structure.models.families import FAMILIES, families_of
from hf_structure.parsing.loading import load_trained, read_tokenizer
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import (
    SUBWORD_KINDS,
    encode,
    is_word_level,
    train_subword_tokenizer,
    train_word_tokenizer,
)
from hf_structure.text.words import WORD_TOKENIZERS
from hf_structure.training.arguments import ModelArguments, RunArguments, option
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.corpora import NUMBER, NUMBERS, PAIRS, STRINGS, Corpora, Reading, is_annotated, words_of
from hf_structure.training.scripts import begin, callbacks, new_config, run, train_and_evaluate
from hf_structure.training.streaming import TextArguments, check_streaming, read_training_text, stream_training_text
from hf_structure.training.trainers.masked_lm import MaskedLMTrainer

logger = logging.getLogger("run_mlm")


TRAINED = ("words", *SUBWORD_KINDS)  # tokenizers trained on the text
VARIANTS = families_of("masked_lm")


@dataclass
class MLMModelArguments(ModelArguments):
    """Options of the model."""

    tokenizer_name: str = option(
        "words",
        "words, unigram or bpe for a vocabulary of the training text, or a tokenizer of subwords (folder "
        "or Hub name).",
    )


@dataclass
class MLMDataArguments(TextArguments):
    """Options of the data."""

    of_evaluation: ClassVar[tuple[str, ...]] = (
        *TextArguments.of_evaluation,
        *("punctuation", "punctuation_by", "mask_rate", "num_maskings"),
    )

    punctuation: str = option("drop", "Drop or keep punctuation.", choices=["drop", "keep"])
    punctuation_by: str = option("auto", "How punctuation is recognised.", choices=["auto", "deprel", "tags", "form"])
    word_tokenizer: str = option(
        "english",
        "Rule that splits raw text into words, in data sets and when the model is used.",
        choices=list(WORD_TOKENIZERS),
    )
    lowercase: bool = option(True, "Lowercase a vocabulary of words.")
    replace_digits: bool = option(True, "Replace runs of digits by one word, N, in a vocabulary of words.")
    min_frequency: int = option(5, "Words that occur fewer times in the training text are unknown.")
    vocab_size: int | None = option(None, "Maximum size of the vocabulary.")
    mask_rate: float = option(0.3, "Share of the words that are masked.")
    num_maskings: int = option(5, "Number of maskings that evaluation averages over.")


@dataclass
class MLMTrainingArguments(RunArguments):
    """`TrainingArguments` with the defaults of the UDGN paper."""

    ignored: ClassVar[dict[str, str]] = RunArguments.ignored | dict.fromkeys(
        ("optim", "optim_args", "optim_target_modules"), "the papers' Adam trains, with the decay in the gradient"
    )

    learning_rate: float = option(1e-3, "Initial learning rate of Adam; by default the one of the model's paper.")
    adam_epsilon: float = option(1e-9, "Epsilon of Adam.")
    weight_decay: float = option(1.2e-6, "L2 regularisation, inside the gradient.")
    max_grad_norm: float = option(0.25, "Bound of the gradient's norm.")
    num_train_epochs: float = option(100, "Number of passes over the training text.")
    lr_scheduler_type: str | None = option(
        None, "By default the rate is halved on a plateau; without evaluation it falls to zero."
    )
    lr_scheduler_kwargs: dict | str | None = option(None, "Settings of the schedule, as JSON.")

    def __post_init__(self):
        # A plateau cannot be seen without evaluation.
        if self.lr_scheduler_type is None:
            self.lr_scheduler_type = "linear" if self.eval_strategy == "no" else "reduce_lr_on_plateau"
        if self.lr_scheduler_type == "reduce_lr_on_plateau" and self.lr_scheduler_kwargs is None:
            self.lr_scheduler_kwargs = {"factor": 0.5, "patience": 2, "threshold": 0.0}
        super().__post_init__()


def parse_arguments() -> tuple[MLMModelArguments, MLMDataArguments, MLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    model_args, data_args, training_args, settings = parse_command_line(
        (MLMModelArguments, MLMDataArguments, MLMTrainingArguments),
        description=__doc__,
        example="[--model_type udgn]",
        defaults=lambda model_type: {"learning_rate": learning_rate(model_type)},
    )
    has_tokenizer = model_args.model_name_or_path or model_args.tokenizer_name not in TRAINED
    check_streaming(data_args, training_args, bool(has_tokenizer))
    return model_args, data_args, training_args, settings


def learning_rate(model_type: str | None) -> float:
    """Returns the learning rate of a family's paper, or of UDGN's paper for other families."""
    name = VARIANTS.get(model_type or "", {}).get("model_type", "udgn")
    return FAMILIES[name].learning_rate


def load_words(file: str, punctuation: str, by: str) -> Iterator[dict]:
    """Yields the sentences of a file, with or without punctuation; constituents lose their labels."""
    for sentence in load_sentences(file, punctuation=punctuation, by=by):
        spans = sentence["spans"]
        yield sentence | {"spans": None if spans is None else [[start, end] for start, end, _ in spans]}


def how_to_read(args: MLMDataArguments) -> Reading:
    """Returns how files and data sets are read, and which columns are kept."""
    read = partial(load_words, punctuation=args.punctuation, by=args.punctuation_by)
    drop_by = args.punctuation_by if args.punctuation == "drop" else None
    features = {"words": STRINGS, "heads": NUMBERS, "spans": PAIRS}
    return Reading(read, features, WORD_TOKENIZERS[args.word_tokenizer], drop_by)


def encode_sentences(sentences: list[dict], tokenizer, is_ours: bool) -> list[dict]:
    """Encodes sentences, with heads and spans if there are any; models of transformers get their special tokens."""
    return [encode_sentence(sentence, tokenizer, is_ours) for sentence in sentences]


def encode_sentence(sentence: dict, tokenizer, is_ours: bool) -> dict:
    words = sentence["words"]
    encoded = encode(words, tokenizer) if is_ours else {"input_ids": encode_for_others(words, tokenizer)}
    trees = {name: sentence.get(name) for name in ("heads", "spans")}
    return {**encoded, "length": len(encoded["input_ids"]), **trees}


def encode_for_others(words: list[str], tokenizer) -> list[int]:
    return tokenizer(words, is_split_into_words=True)["input_ids"]


def to_dataset(sentences: Dataset, tokenizer, is_ours: bool, corpora: Corpora) -> Dataset:
    """Encodes sentences for the model, with heads and spans if every sentence has them."""
    features = {"input_ids": NUMBERS, "length": NUMBER}
    if is_ours and not is_word_level(tokenizer):
        features["word_ids"] = NUMBERS
    features |= {name: kind for name, kind in (("heads", NUMBERS), ("spans", PAIRS)) if is_annotated(sentences, name)}
    return corpora.encode(sentences, partial(encode_sentences, is_ours=is_ours), tokenizer, features)


def load_tokenizer(
    model_args: MLMModelArguments, data_args: MLMDataArguments, sentences: Dataset | None, corpora: Corpora
):
    """Loads the trained model's tokenizer or a subword tokenizer, or trains a new one."""
    trust = {"trust_remote_code": model_args.trust_remote_code}
    if model_args.model_name_or_path:
        folder = hf_structure.resolve_model(model_args.model_name_or_path, **trust)
        return read_tokenizer(folder, **trust)
    kind = model_args.tokenizer_name
    if kind not in TRAINED:
        tokenizer = AutoTokenizer.from_pretrained(kind, add_prefix_space=True, **trust)
    else:
        if data_args.vocabulary_file:
            sentences = corpora.read(data_args.vocabulary_file, how_to_read(data_args))
        tokenizer = train_tokenizer(kind, data_args, sentences)
    # Tokenizers of causal models, such as GPT-2's, have neither.
    missing = [name for name in ("pad_token", "mask_token") if getattr(tokenizer, name) is None]
    tokenizer.add_special_tokens({name: f"<{name.removesuffix('_token')}>" for name in missing})
    # Saved with the tokenizer, so that parsing reads words as training did.
    tokenizer.init_kwargs["skip_punctuation"] = data_args.punctuation == "drop"
    tokenizer.init_kwargs["word_tokenizer"] = data_args.word_tokenizer
    return tokenizer


def train_tokenizer(kind: str, args: MLMDataArguments, sentences: Dataset) -> PreTrainedTokenizerBase:
    """Trains a tokenizer of words or subwords."""
    if kind == "words":
        options = ("min_frequency", "vocab_size", "lowercase", "replace_digits")
        return train_word_tokenizer(words_of(sentences), **{name: getattr(args, name) for name in options})
    size = {"vocab_size": args.vocab_size} if args.vocab_size else {}
    return train_subword_tokenizer(words_of(sentences), kind=kind, **size)


def load_model(args: MLMModelArguments, settings: dict, tokenizer):
    """Loads a trained model, or makes a new one."""
    if args.model_name_or_path:
        return load_trained(
            args.model_name_or_path, AutoModelForMaskedLM, "masked language model", settings, args.trust_remote_code
        )
    name = settings.pop("model_type", None)
    if not name:
        raise ValueError("--model_type, --model_name_or_path or a --config with a model_type is needed")
    settings = {"model_type": name, **VARIANTS.get(name, {}), **settings}
    config = new_config(settings.pop("model_type"), settings, tokenizer, special=("unk", "pad", "mask"))
    model = AutoModelForMaskedLM.from_config(config)
    if args.tokenizer_name != "words" and abilities_of(model.config).reads == "words":
        raise ValueError(f"{name} parses words, not subwords: leave --tokenizer_name out")
    return model


def check_head_loss(train: Dataset | None, args: MLMTrainingArguments) -> None:
    """Raises `ValueError` if the model's settings include a loss of heads that cannot be computed."""
    if args.label_smoothing_factor:
        raise ValueError("--label_smoothing_factor leaves the loss of heads out: set head_loss_weight to 0 with it")
    # Streamed text has no heads.
    if train is None or "heads" not in train.column_names:
        raise ValueError("head_loss_weight is above 0, but there are training sentences without heads")


def build_trainer(model, tokenizer, train, validation, data_args, training_args) -> MaskedLMTrainer:
    """Makes the trainer, with the papers' optimiser: Adam with the weight decay in the gradient."""
    collator = MaskedWordCollator.from_tokenizer(tokenizer, mask_rate=data_args.mask_rate, seed=training_args.seed)
    if data_args.streaming:
        encode = partial(encode_sentences, tokenizer=tokenizer, is_ours=abilities_of(model.config).reads != "text")
        reading = replace(how_to_read(data_args), features={"words": STRINGS})
        train = stream_training_text(data_args, training_args, reading, encode, collator)
    # transformers' AdamW decays weights outside of the gradient.
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=training_args.learning_rate,
        betas=(training_args.adam_beta1, training_args.adam_beta2),
        eps=training_args.adam_epsilon,
        weight_decay=training_args.weight_decay,
    )
    return MaskedLMTrainer(
        model=model,
        args=training_args,
        train_dataset=train,
        eval_dataset=validation,
        data_collator=collator,
        processing_class=tokenizer,
        optimizers=(optimizer, None),
        callbacks=callbacks(training_args) if train is not None else [],
        max_tokens=data_args.max_tokens,
        max_sentences=data_args.max_sentences,
        num_maskings=data_args.num_maskings,
    )


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    corpora = Corpora(data_args, training_args)
    reading = how_to_read(data_args)
    train = read_training_text(corpora, data_args, reading)
    others = (data_args.validation_file, data_args.test_file)
    sets = [train, *(corpora.read(files, reading) if files else None for files in others)]
    tokenizer = load_tokenizer(model_args, data_args, train, corpora)
    model = load_model(model_args, settings, tokenizer)
    is_ours = abilities_of(model.config).reads != "text"
    if is_ours and model.config.use_position_embeddings:
        tokenizer.model_max_length = model.config.max_position_embeddings
    logger.info("%d words, %d parameters", len(tokenizer), model.num_parameters())
    train, validation, test = (each and to_dataset(each, tokenizer, is_ours, corpora) for each in sets)
    if data_args.trains and getattr(model.config, "head_loss_weight", 0):
        check_head_loss(train, training_args)
    trainer = build_trainer(model, tokenizer, train, validation, data_args, training_args)
    train_and_evaluate(trainer, test, model_args, data_args)


if __name__ == "__main__":
    run(main, "run_mlm.py")
