"""The teacher of a parser, and the sentences as the teacher reads them."""

from functools import partial
from typing import Any

import torch
from datasets import Dataset, concatenate_datasets
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from hf_structure.corpora.collators import TEACHER
from hf_structure.models.families import family_of
from hf_structure.parsing.loading import load_trained, own_tokenizer
from hf_structure.registration.auto import AutoModelForDependencyParsing
from hf_structure.text.tokenization import encode
from hf_structure.training.corpora import Corpora
from hf_structure.training.distillation import Teacher
from hf_structure.training.parsing.options import ParsingModelArguments, ParsingTrainingArguments, require_option
from hf_structure.training.parsing.rows import extra_inputs, input_features, longest_input


def load_teacher(
    args: ParsingModelArguments, config: PreTrainedConfig, training_args: ParsingTrainingArguments
) -> Teacher | None:
    """Loads the teacher of a parser, if one is given. Raises `ValueError` if it cannot be a teacher."""
    if args.teacher is None:
        return None
    require_option(family_of(config), "teacher")
    model: Any = load_trained(args.teacher, AutoModelForDependencyParsing, "parser", {}, args.trust_remote_code)
    family = family_of(model.config)
    if family is None or "teacher" not in family.options or model.config.num_tags:
        raise ValueError(f"--teacher {args.teacher}: not a rng_transformer that reads words alone")
    # The teacher is not trained: with --bf16, its weights are in half precision, too.
    model.to(training_args.device, torch.bfloat16 if training_args.bf16 else torch.float32)
    return Teacher(model, config, args.teacher_columns, args.teacher_weight)


def with_teacher(
    rows: Dataset, sentences: Dataset, teacher: Teacher, max_length: int, trust_remote_code: bool, corpora: Corpora
) -> Dataset:
    """Adds the teacher's inputs to the rows of the sentences."""
    config = teacher.model.config
    tokenizer = own_tokenizer(teacher.model, trust_remote_code)
    features = {f"{TEACHER}{name}": kind for name, kind in input_features(tokenizer, config).items()}
    read = corpora.encode(sentences, partial(encode_taught, config=config, max_length=max_length), tokenizer, features)
    return concatenate_datasets([rows, read], axis=1)


def encode_taught(
    sentences: list[dict], tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, max_length: int
) -> list[dict]:
    """
    The teacher's inputs for sentences. Raises `ValueError` for a sentence of at most `max_length` words that is too
    long for it; longer sentences are left out of training anyway.
    """
    abilities = config.abilities
    longest = longest_input(abilities)
    rows = []
    for sentence in sentences:
        words = sentence["words"]
        row = encode(words, tokenizer)
        if len(row["input_ids"]) > longest and len(words) <= max_length:
            raise ValueError(
                f"--teacher reads at most {longest} words or pieces; a training sentence has "
                f"{len(row['input_ids'])}: give a smaller --max_length, which leaves longer sentences out"
            )
        row |= extra_inputs(words, abilities, sentence["treebank"])
        rows.append({f"{TEACHER}{name}": value for name, value in row.items()})
    return rows
