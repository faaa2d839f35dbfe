"""
Fine-tune a language model on a task of GLUE: a causal one, with or without dependency graphs (GiLT, section 4.3), or a
masked one that induces structure (UDGN, section 4.5).

    accelerate launch examples/papers/run_glue.py --task rte --model_name_or_path runs/gilt-gpt2 \\
        --dataset_name nyu-mll/glue --train_file train --validation_file validation --output_dir runs/gilt-gpt2-rte

`--task` is `rte`, `sst2`, `mrpc` or `stsb`. Files are tables, .tsv without quotes or .json(l), whose columns are
called as in GLUE or named by options; with `--dataset_name`, they are splits of that data set of the Hub or folder.

A causal language model reads prompts. The word of a class follows, and the likeliest is predicted; `stsb` is a linear
regression on the final state of the prompt. GiLT first parses the prompts as it is before this training (by a beam;
`--parse_cache` keeps the parses for other seeds).

UDGN, StructFormer and its Transformer get a classifier of the mean of a sentence's word vectors, or of the means of
two sentences, which are read apart. `--freeze_parser` trains all but the parser:

    accelerate launch examples/papers/run_glue.py --task stsb --model_name_or_path udgn-en --learning_rate 3e-4 \\
        --train_file stsb-train.tsv --validation_file stsb-dev.tsv --test_file stsb-test.tsv sick-test.tsv \\
        --output_dir runs/udgn-stsb

Of several files for a test, the results are given for each and for all together; the prediction for each row is
written to `test_predictions.jsonl`.

Batches hold at most `--max_examples` examples and `--max_tokens` tokens. The defaults are GiLT's, where its paper
gives them. The best checkpoint is kept, that of the highest `score`: what table 2 of that paper reports, or the mean
of the two numbers there. An interrupted run resumes from its last complete checkpoint when the same command is
repeated.

Without a training file a fine-tuned model is evaluated. A model that reads graphs is given those of the model it was
trained from:

    python examples/papers/run_glue.py --task rte --model_name_or_path runs/gilt-gpt2-rte --parser runs/gilt-gpt2 \\
        --dataset_name nyu-mll/glue --validation_file validation --output_dir runs/gilt-gpt2-rte
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import ClassVar

import datasets
import numpy as np
import torch
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import hf_structure
from hf_structure import GraphCollator, WordCollator
from hf_structure.algorithms.graph import TapeFeatures
from hf_structure.corpora.graph_batches import add_tapes
from hf_structure.corpora.tasks import TASKS, SentenceCollator, Task, TaskCollator, read_table, task_examples
from hf_structure.hub.eval_results import benchmark_of
from hf_structure.models.abilities import abilities_of
from hf_structure.models.annotations import StructureAnnotation, annotation_of
from hf_structure.models.families import family_of
from hf_structure.parsing.encoding import seen_mask
from hf_structure.parsing.loading import CAUSAL, load_model, load_weights
from hf_structure.scoring.scoring import word_splitter
from hf_structure.text.pre_tokenization import prepare_for_pipelines
from hf_structure.text.tokenization import encode, encode_subwords
from hf_structure.training.arguments import DataArguments, RunArguments, TrainedModelArguments, option
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.corpora import without_long
from hf_structure.training.scripts import begin, callbacks, check_lengths, run, train_and_evaluate, write_text
from hf_structure.training.trainers.sentence import SentenceTrainer
from hf_structure.training.trainers.task import TaskTrainer

logger = logging.getLogger("run_glue")

PIECE = 1000  # prompts that are parsed before the parses are kept
PARSED_TOGETHER = 64


@dataclass
class TaskModelArguments(TrainedModelArguments):
    """Options of the model to fine-tune."""

    of_evaluation: ClassVar[tuple[str, ...]] = (*TrainedModelArguments.of_evaluation, "parser", "beam_size")

    freeze_parser: bool = option(False, "Whether the parser that a masked model has is not trained.")
    parser: str | None = option(
        None, "Model that parses the prompts; by default the one that is fine-tuned, as it is before."
    )
    beam_size: int = option(20, "Graphs of a prompt that parsing follows.")
    parse_cache: str | None = option(
        None, "Folder that keeps parsed prompts; by default 'parses' in the output folder."
    )


@dataclass
class TaskDataArguments(DataArguments):
    """Options of the data to fine-tune on."""

    of_evaluation: ClassVar[tuple[str, ...]] = (
        *DataArguments.of_evaluation,
        *("task", "dataset_name", "sentence1_column", "sentence2_column", "label_column", "word_tokenizer"),
    )

    task: str | None = option(None, f"The task: {', '.join(TASKS)}.")
    dataset_name: str | None = option(
        None, "GLUE on the Hub, or a folder of the same form; then, files are its splits."
    )
    sentence1_column: str | None = option(None, "Column of the first or only sentence.")
    sentence2_column: str | None = option(None, "Column of the second sentence.")
    label_column: str | None = option(None, "Column of the classes or scores.")
    word_tokenizer: str | None = option(
        None, "How sentences are split into words, english or spaces; by default as with the checkpoint."
    )
    max_tokens: int = option(8192, "Tokens of a batch on one device, padding counted.")
    max_examples: int = option(64, "Prompts or pairs of a training batch on one device, at most.")


@dataclass
class TaskTrainingArguments(RunArguments):
    """`TrainingArguments` with the defaults of the GiLT paper, appendix A."""

    ignored: ClassVar[dict[str, str]] = RunArguments.ignored | {
        "label_smoothing_factor": "the loss is that of the task"
    }

    learning_rate: float = option(7.5e-6, "Learning rate of AdamW.")
    lr_scheduler_type: str = option("constant", "Schedule of the learning rate.")
    num_train_epochs: float = option(10, "Number of passes over the training set.")
    metric_for_best_model: str | None = option("score", "What makes a checkpoint the best.")


def parse_arguments() -> tuple[TaskModelArguments, TaskDataArguments, TaskTrainingArguments]:
    """Command line over `--config FILE` over defaults."""
    model_args, data_args, training_args, settings = parse_command_line(
        (TaskModelArguments, TaskDataArguments, TaskTrainingArguments),
        description=__doc__,
        example="--task TASK --model_name_or_path MODEL",
    )
    if data_args.task not in TASKS:
        raise ValueError(f"--task is one of {', '.join(TASKS)}, not {data_args.task}")
    if settings or not model_args.model_name_or_path:
        raise ValueError("--model_name_or_path is needed: a model to fine-tune, not settings of a new one")
    return model_args, data_args, training_args


def load_task_model(
    folder: str, task: Task, tokenizer: PreTrainedTokenizerBase, trains: bool, trust_remote_code: bool = False
) -> PreTrainedModel:
    """
    The model, whose configuration names the task's classes; to train a regression, with a new linear map if need be.
    `ValueError` if weights are missing that no training gives.
    """
    config = task_config(folder, task, trust_remote_code)
    if config.pad_token_id is None:  # models of transformers find the last token by it
        config.pad_token_id = tokenizer.pad_token_id
    auto_class = AutoModelForCausalLM if task.classes else AutoModelForSequenceClassification
    optional = "" if trains and not task.classes else "-"  # all may be missing, or none
    if reads_sentences(config):
        auto_class = AutoModelForSequenceClassification
        optional = "classifier." if trains else "-"
    model = load_weights(folder, auto_class, "model of this task", optional, trust_remote_code, config=config)
    # The loss of the class's word does not reach the scorer of arcs; classifiers have none.
    if task.classes and graph_annotation(config) is not None:
        model.scorer.requires_grad_(False)
    return model.float()  # the weights; --bf16 computes in half precision


def task_config(folder: str, task: Task, trust_remote_code: bool) -> PreTrainedConfig:
    """The configuration in a folder, with the classes of a task."""
    classes = task.classes or ("score",)
    names = {"id2label": dict(enumerate(classes)), "label2id": {name: i for i, name in enumerate(classes)}}
    config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, **names)
    config.problem_type = None if task.classes else "regression"
    if reads_sentences(config):
        config.pair_features = task.pair_features
    return config


def reads_sentences(config: PreTrainedConfig) -> bool:
    """True if a model classifies sentences and pairs of sentences, not prompts."""
    family = family_of(config)
    return family is not None and family.objective == "masked_lm"


def freeze_parser(model: PreTrainedModel) -> None:
    """Keeps the parser of a masked model as it is. `ValueError` if it has none."""
    if not reads_sentences(model.config) or not abilities_of(model.config).structures:
        raise ValueError("--freeze_parser: this model has no parser, or none that could be frozen")
    model.base_model.parser.requires_grad_(False)


def load_examples(
    names: list[str], args: TaskDataArguments, split: Callable[[str], list[str]], prompts: bool
) -> Dataset:
    """
    Prompts, or sentences apart, of all files or splits of the data set, with their labels and the name of the `file`.
    `ValueError` if there are none.
    """
    task = TASKS[args.task]
    columns = {part: getattr(args, f"{part}_column") for part in ("sentence1", "sentence2", "label")}

    def read(name: str) -> Iterator[dict]:
        logger.info("reading %s", name)
        if not args.dataset_name:
            return task_examples(read_table(name), task, split, columns, name, prompts)
        rows = datasets.load_dataset(args.dataset_name, args.task, split=name)
        return task_examples(enumerate(rows, start=1), task, split, columns, f"{args.dataset_name}, {name}", prompts)

    examples = [example | {"file": name.split("/")[-1].split(".")[0]} for name in names for example in read(name)]
    if not examples:
        raise ValueError(f"{', '.join(names)}: no sentences")
    return Dataset.from_list(examples)


def encode_labels(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The tokens of each class's word after the prompt. `ValueError` if they do not tell the classes apart."""
    found = []
    for label in task.labels:
        encoded = encode_subwords([task.prompt.split()[-1], label], tokenizer)
        found.append([token for token, word in zip(*encoded.values(), strict=True) if word == 2])
    if len(set(map(tuple, found))) < len(found):
        raise ValueError(f"the tokenizer gives the same tokens for {' and '.join(task.labels)}")
    return found


def encode_examples(
    examples: Dataset, tokenizer: PreTrainedTokenizerBase, label_ids: list[list[int]], longest: int | None
) -> Dataset:
    """Prompts as tokens, without an end; `length` counts the class's word that follows."""
    encoded = [encode_subwords(example["words"], tokenizer) for example in examples]
    columns = {name: [sentence[name][:-1] for sentence in encoded] for name in ("input_ids", "word_ids")}
    room = max(map(len, label_ids), default=0)
    columns["length"] = [len(ids) + room for ids in columns["input_ids"]]
    check_lengths(columns["length"], longest)
    return Dataset.from_dict(columns | {name: examples[name][:] for name in ("label", "file")})


def encode_sentences(examples: Dataset, tokenizer: PreTrainedTokenizerBase, longest: int | None) -> Dataset:
    """Ids of sentences, and which sentence of its pair each is of, `token_type_ids`."""
    columns = {name: [] for name in ("input_ids", "token_type_ids", "length")}
    for words, numbers in zip(examples["words"], examples["sentence_ids"], strict=True):
        encoded = encode(words, tokenizer)
        word_ids = encoded.get("word_ids", range(len(words)))
        columns["input_ids"].append(encoded["input_ids"])
        columns["token_type_ids"].append([numbers[word] for word in word_ids])
        columns["length"].append(len(encoded["input_ids"]))
    check_lengths([max(ids.count(0), ids.count(1)) for ids in columns["token_type_ids"]], longest)
    return Dataset.from_dict(columns | {name: examples[name][:] for name in ("label", "file")})


def parse_prompts(dataset: Dataset, folder: Path, parser: str, **options) -> Dataset:
    """
    The prompts with the best graph of each, `arcs`, and what is read from it, `tapes`; see [`best_graphs`]. They are
    kept in a folder, piece by piece, under names that tell the parser and the prompts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = [fingerprint(parser), *(str(options[name]) for name in ("beam_size", "features", "with_label"))]
    dataset = dataset.select(np.argsort(dataset["length"][:], kind="stable"))  # batches of the search, like lengths
    prompts = dataset.select_columns(["input_ids", "word_ids"])
    pieces = []
    for start in range(0, len(dataset), PIECE):
        piece = prompts.select(range(start, min(start + PIECE, len(dataset))))
        name = hashlib.sha256(json.dumps([key, piece["input_ids"][:], piece["word_ids"][:]]).encode()).hexdigest()
        parsed = piece.map(
            best_graphs,
            fn_kwargs={"parser": parser, **options},
            batched=True,
            batch_size=PARSED_TOGETHER,
            remove_columns=piece.column_names,
            cache_file_name=str(folder / f"{name}.arrow"),
            new_fingerprint=name,
            desc="parsing prompts",
        )
        pieces.append(parsed)
    return datasets.concatenate_datasets([dataset, datasets.concatenate_datasets(pieces)], axis=1)


def fingerprint(folder: str) -> str:
    """Tells the model in a folder from others."""
    digest = hashlib.sha256()
    for file in sorted(Path(folder).glob("*")):
        if file.suffix in (".safetensors", ".bin") or file.name == "config.json":
            digest.update(file.read_bytes())
    return digest.hexdigest()


def best_graphs(
    batch: dict[str, list], parser: str, beam_size: int, features: TapeFeatures, with_label: bool, device: torch.device
) -> dict[str, list]:
    """
    The graphs of prompts, given by their `input_ids` and `word_ids`, as columns: the best of `beam_size` that the
    model in the folder `parser` follows, and the `features` that the model that is trained reads from it. `with_label`
    says whether another word follows, which no arc reaches.
    """
    model, _ = load_model(parser, None, device, *CAUSAL)
    if graph_annotation(model.config) is None:
        raise ValueError(f"{parser} does not parse: it reads no graphs")
    examples = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    inputs = WordCollator()(examples)
    found = model.beam_search(**{name: value.to(device) for name, value in inputs.items()}, beam_size=beam_size)
    arcs = [graph.nonzero().tolist() for graph in found.graphs[:, 0]]
    words = [range(word_ids[-1] + with_label) for word_ids in batch["word_ids"]]
    return {"arcs": arcs, **add_tapes({"words": words, "arcs": arcs}, features)}


def graph_annotation(config: PreTrainedConfig) -> StructureAnnotation | None:
    """The annotation of a model that reads graphs; None for other models."""
    annotation = annotation_of(config)
    return annotation if annotation is not None and annotation.structures == "graphs" else None


def choose_parser(args: TaskModelArguments, folder: str, tokenizer: PreTrainedTokenizerBase, trains: bool) -> str:
    """
    Folder of the model that parses prompts, by default the one in `folder`. Raises `ValueError` if there is no such
    model, it has another vocabulary, or a fine-tuned model would parse.
    """
    if not args.parser:
        if not trains:
            raise ValueError("--parser is needed to evaluate a model that reads graphs: the one it was trained from")
        return folder
    parser = hf_structure.resolve_model(args.parser)
    if AutoTokenizer.from_pretrained(parser, trust_remote_code=False).get_vocab() != tokenizer.get_vocab():
        raise ValueError(f"the vocabulary of --parser {args.parser} is another than the model's")
    return parser


def load_tokenizer(folder: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The model's tokenizer, with some token for padding."""
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.bos_token
    return tokenizer


def load_sets(
    args: TaskDataArguments,
    split: Callable[[str], list[str]],
    encode_set: Callable[[Dataset], Dataset],
    prompts: bool = True,
) -> list[Dataset | None]:
    """Training, validation and test set, not yet parsed."""
    files = (args.train_file, args.validation_file, args.test_file)
    examples = [load_examples(names, args, split, prompts) if names else None for names in files]
    if examples[0]:
        examples[0] = without_long(examples[0], args.max_length)
    return [each and encode_set(each) for each in examples]


def seen_words(text: str, split: Callable[[str], list[str]], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The words of a text that a masked model is shown: some are trained without punctuation."""
    words = split(text)
    return list(compress(words, seen_mask(words, tokenizer)))


def prompt_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    model_args: TaskModelArguments,
    data_args: TaskDataArguments,
    training_args: TaskTrainingArguments,
    folder: str,
) -> tuple[Callable[..., TaskTrainer], list[Dataset | None]]:
    """
    Function that makes the trainer of a causal language model from its data sets, and the data sets, parsed if it
    reads graphs.
    """
    label_ids = encode_labels(TASKS[data_args.task], tokenizer)
    split = word_splitter(model, tokenizer, data_args.word_tokenizer)
    options = {"tokenizer": tokenizer, "label_ids": label_ids, "longest": abilities_of(model.config).max_tokens}
    sets = load_sets(data_args, split, partial(encode_examples, **options))
    collator = GraphCollator(tokenizer.pad_token_id)
    graphs = graph_annotation(model.config)
    if graphs is not None:
        collator = graphs.collator(tokenizer.pad_token_id)
        parser = choose_parser(model_args, folder, tokenizer, data_args.trains)
        cache = Path(model_args.parse_cache or Path(training_args.output_dir, "parses"))
        options = {"beam_size": model_args.beam_size, "device": training_args.device, "with_label": bool(label_ids)}
        options["features"] = collator.features
        # The model card quotes the command, with the parser that was chosen.
        model_args.parser = model_args.parser or model_args.model_name_or_path
        with training_args.main_process_first(local=False, desc="parsing"):
            sets = [each and parse_prompts(each, cache, parser, **options) for each in sets]
    return partial(TaskTrainer, data_collator=TaskCollator(collator, label_ids)), sets


def sentence_trainer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data_args: TaskDataArguments
) -> tuple[Callable[..., SentenceTrainer], list[Dataset | None]]:
    """Function that makes the trainer of a masked language model from its data sets, and the data sets."""
    split = word_splitter(model, tokenizer, data_args.word_tokenizer)
    longest = abilities_of(model.config).max_tokens
    options = {"tokenizer": tokenizer, "longest": longest}
    split = partial(seen_words, split=split, tokenizer=tokenizer)
    sets = load_sets(data_args, split, partial(encode_sentences, **options), prompts=False)
    prepare_for_pipelines(tokenizer, pairs=model.config.pair_features is not None)
    return partial(SentenceTrainer, data_collator=SentenceCollator(tokenizer.pad_token_id)), sets


def write_predictions(trainer: TaskTrainer, dataset: Dataset) -> None:
    """Writes the prediction for each row: the `file` of the row, its `label` and the `prediction`."""
    rows = zip(dataset["file"], dataset["label"], trainer.predictions, strict=True)
    lines = (json.dumps(dict(zip(("file", "label", "prediction"), row, strict=True))) for row in rows)
    write_text("".join(f"{line}\n" for line in lines), Path(trainer.args.output_dir, "test_predictions.jsonl"))


def main() -> None:
    model_args, data_args, training_args = parse_arguments()
    begin(training_args)
    if data_args.dataset_name and not data_args.eval_dataset:
        data_args.eval_dataset = benchmark_of(data_args.dataset_name, data_args.task)
    task = TASKS[data_args.task]
    trust = model_args.trust_remote_code
    folder = hf_structure.resolve_model(model_args.model_name_or_path, trust_remote_code=trust)
    tokenizer = load_tokenizer(folder, trust)
    model = load_task_model(folder, task, tokenizer, data_args.trains, trust)
    if model_args.freeze_parser:
        freeze_parser(model)
    if reads_sentences(model.config):
        make_trainer, sets = sentence_trainer(model, tokenizer, data_args)
    else:
        make_trainer, sets = prompt_trainer(model, tokenizer, model_args, data_args, training_args, folder)
    trainer = make_trainer(
        model=model,
        args=training_args,
        task=task,
        train_dataset=sets[0],
        eval_dataset=sets[1],
        processing_class=tokenizer,
        callbacks=callbacks(training_args) if sets[0] else [],
        max_tokens=data_args.max_tokens,
        max_sentences=data_args.max_examples,
    )
    train_and_evaluate(trainer, sets[2], model_args, data_args)
    if sets[2] and trainer.is_world_process_zero():
        write_predictions(trainer, sets[2])


if __name__ == "__main__":
    run(main, "run_glue.py")
