"""
Train a masked language model that induces sentence structure, on raw or annotated text.

    accelerate launch examples/run_mlm.py --model_type udgn \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/udgn

`--model_type` is `udgn`, `structformer` or `transformer` (StructFormer's encoder with softmax attention and without a
parser, which its paper compares with). Files are CoNLL-U, PTB brackets or text (one sentence a line, words separated
by spaces), by their suffix; several files may be given. Only the words are trained on. Where the validation file has
dependency trees, UAS and UUAS are reported beside the masked perplexity; where it has constituents, unlabelled F1.
The defaults are the optimiser and schedule of the papers; `--config` takes a file with the sizes and settings of a
published model (see `examples/configs`), which further options override. The vocabulary is the words of the training
text, or with `--tokenizer_name gpt2` the subwords of a tokenizer (`--mask_rate 0.15` in the StructFormer paper). A
run that was stopped goes on from its last complete checkpoint when the same command is given again. On several GPUs
`accelerate launch` starts a process each; `torchrun --nproc_per_node 2 examples/run_mlm.py ...` starts two on a CPU.

Without a training file a trained model is evaluated:

    python examples/run_mlm.py --model_name_or_path runs/udgn --test_file test.conllu --output_dir runs/udgn

`--model_name_or_path` may also be a masked language model of another kind, such as BERT or its encoder alone, to be
trained further on a text (`--punctuation keep --mask_rate 0.15`), for example before it becomes a parser's encoder.
"""

import inspect
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from datasets import Dataset
from transformers import AutoModelForMaskedLM, AutoTokenizer

import hf_structure
from hf_structure.data.collators import MaskedWordCollator
from hf_structure.data.corpus import load_sentences
from hf_structure.pipelines.loading import load_weights, read_tokenizer
from hf_structure.tokenization import encode, train_word_tokenizer
from hf_structure.training.scripts import (
    DataArguments,
    ModelArguments,
    RunArguments,
    begin,
    callbacks,
    new_config,
    parse_command_line,
    read_files,
    run,
    train_and_evaluate,
    without_long,
)
from hf_structure.training.trainers import MaskedLMTrainer

logger = logging.getLogger("run_mlm")


class Family(NamedTuple):
    """What a name of --model_type stands for."""

    settings: dict
    learning_rate: float  # of its paper


FAMILIES = {
    "udgn": Family({"model_type": "udgn"}, 1e-3),
    "structformer": Family({"model_type": "structformer"}, 3e-4),
    "transformer": Family({"model_type": "structformer", "attention": "softmax"}, 3e-4),
}


@dataclass
class MLMModelArguments(ModelArguments):
    """What is trained."""

    tokenizer_name: str | None = field(
        default=None,
        metadata={"help": "Tokenizer of subwords (folder or Hub name); by default a vocabulary of words is made."},
    )


@dataclass
class MLMDataArguments(DataArguments):
    """What it is trained on."""

    punctuation: str = field(
        default="drop", metadata={"help": "Whether punctuation is trained on.", "choices": ["drop", "keep"]}
    )
    punctuation_by: str = field(
        default="auto",
        metadata={"help": "How punctuation is recognised.", "choices": ["auto", "deprel", "tags", "form"]},
    )
    min_frequency: int = field(
        default=5, metadata={"help": "Words seen fewer times in the training text are unknown."}
    )
    vocab_size: int | None = field(default=None, metadata={"help": "Largest size of the vocabulary."})
    vocabulary_file: list[str] | None = field(
        default=None, metadata={"help": "Text whose words make the vocabulary, if not the training text."}
    )
    mask_rate: float = field(default=0.3, metadata={"help": "Share of the words that are masked."})
    num_maskings: int = field(default=5, metadata={"help": "Maskings of the text that evaluation averages over."})


@dataclass
class MLMTrainingArguments(RunArguments):
    """`TrainingArguments` with the defaults of the UDGN paper."""

    learning_rate: float = field(
        default=1e-3, metadata={"help": "Initial learning rate of Adam; by default that of the model's paper."}
    )
    adam_epsilon: float = field(default=1e-9, metadata={"help": "Epsilon of Adam."})
    weight_decay: float = field(default=1.2e-6, metadata={"help": "L2 regularisation, inside the gradient."})
    max_grad_norm: float = field(default=0.25, metadata={"help": "Bound of the gradient's norm."})
    num_train_epochs: float = field(default=100, metadata={"help": "Number of passes over the training text."})
    lr_scheduler_type: str = field(
        default="reduce_lr_on_plateau", metadata={"help": "By default the rate is halved on a plateau."}
    )
    lr_scheduler_kwargs: dict | str | None = field(
        default_factory=lambda: {"factor": 0.5, "patience": 2, "threshold": 0.0},
        metadata={"help": "Settings of the schedule, as JSON."},
    )


def parse_arguments() -> tuple[MLMModelArguments, MLMDataArguments, MLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    return parse_command_line(
        (MLMModelArguments, MLMDataArguments, MLMTrainingArguments),
        description=__doc__,
        example="[--model_type udgn]",
        defaults=lambda model_type: {"learning_rate": FAMILIES.get(model_type, FAMILIES["udgn"]).learning_rate},
    )


def load_words(files: list[str], args: MLMDataArguments) -> list[dict]:
    """Sentences of all files, without punctuation if so chosen."""
    return read_files(files, partial(load_sentences, punctuation=args.punctuation, by=args.punctuation_by))


def to_dataset(sentences: list[dict], tokenizer, is_ours: bool) -> Dataset:
    """
    Word ids, lengths, and heads and spans if every sentence has them. Models of other kinds are given their special
    tokens.
    """
    encoded = [
        encode(s["words"], tokenizer) if is_ours else encode_for_others(s["words"], tokenizer) for s in sentences
    ]
    columns = {name: [sentence[name] for sentence in encoded] for name in encoded[0]}
    columns["length"] = [len(ids) for ids in columns["input_ids"]]
    if all(sentence["heads"] is not None for sentence in sentences):
        columns["heads"] = [sentence["heads"] for sentence in sentences]
    if all(sentence["spans"] is not None for sentence in sentences):
        columns["spans"] = [[[start, end] for start, end, _ in sentence["spans"]] for sentence in sentences]
    return Dataset.from_dict(columns)


def encode_for_others(words: list[str], tokenizer) -> dict[str, list[int]]:
    return {"input_ids": tokenizer(words, is_split_into_words=True)["input_ids"]}


def load_tokenizer(model_args: MLMModelArguments, data_args: MLMDataArguments, sentences: list[dict]):
    """The trained model's tokenizer, a given one of subwords, or a new one of words."""
    trust = {"trust_remote_code": model_args.trust_remote_code}
    if model_args.model_name_or_path:
        folder = hf_structure.resolve_model(model_args.model_name_or_path, **trust)
        return read_tokenizer(folder, **trust)
    if model_args.tokenizer_name:
        tokenizer = AutoTokenizer.from_pretrained(model_args.tokenizer_name, add_prefix_space=True, **trust)
        missing = [name for name in ("pad_token", "mask_token") if getattr(tokenizer, name) is None]
        tokenizer.add_special_tokens({name: f"<{name.removesuffix('_token')}>" for name in missing})
        tokenizer.init_kwargs["skip_punctuation"] = data_args.punctuation == "drop"
        return tokenizer
    counted = load_words(data_args.vocabulary_file, data_args) if data_args.vocabulary_file else sentences
    return train_word_tokenizer(
        (sentence["words"] for sentence in counted),
        min_frequency=data_args.min_frequency,
        vocab_size=data_args.vocab_size,
        skip_punctuation=data_args.punctuation == "drop",
    )


def load_model(args: MLMModelArguments, settings: dict, tokenizer):
    """A trained model, or a new one of a family."""
    if args.model_name_or_path:
        trust = {"trust_remote_code": args.trust_remote_code}
        folder = hf_structure.resolve_model(args.model_name_or_path, **trust)
        return load_weights(folder, AutoModelForMaskedLM, "masked language model", **trust)
    name = settings.pop("model_type", None)
    if not name:
        raise ValueError("--model_type, --model_name_or_path or a --config with a model_type is needed")
    settings = FAMILIES[name].settings | settings if name in FAMILIES else {"model_type": name, **settings}
    config = new_config(settings.pop("model_type"), settings, tokenizer, special=("unk", "pad", "mask"))
    model = AutoModelForMaskedLM.from_config(config)
    if args.tokenizer_name and "word_ids" not in inspect.signature(getattr(model, "decode", dict)).parameters:
        raise ValueError(f"{name} parses words, not subwords: leave --tokenizer_name out")
    return model


def build_trainer(model, tokenizer, sentences: list[dict], data_args, training_args) -> MaskedLMTrainer:
    """Trainer with the papers' optimiser: Adam with the weight decay in the gradient."""
    validation = load_words(data_args.validation_file, data_args) if data_args.validation_file else []
    is_ours = hasattr(model, "structures")
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
        train_dataset=to_dataset(sentences, tokenizer, is_ours) if sentences else None,
        eval_dataset=to_dataset(validation, tokenizer, is_ours) if validation else None,
        data_collator=MaskedWordCollator.from_tokenizer(
            tokenizer, mask_rate=data_args.mask_rate, seed=training_args.seed
        ),
        processing_class=tokenizer,
        optimizers=(optimizer, None),
        callbacks=callbacks(training_args) if sentences else [],
        max_tokens=data_args.max_tokens,
        num_maskings=data_args.num_maskings,
    )


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    sentences = load_words(data_args.train_file, data_args) if data_args.train_file else []
    sentences = without_long(sentences, data_args.max_length) if sentences else []
    tokenizer = load_tokenizer(model_args, data_args, sentences)
    model = load_model(model_args, settings, tokenizer)
    logger.info("%d words, %d parameters", len(tokenizer), model.num_parameters())
    test = None
    if data_args.test_file:
        test = to_dataset(load_words(data_args.test_file, data_args), tokenizer, hasattr(model, "structures"))
    trainer = build_trainer(model, tokenizer, sentences, data_args, training_args)
    train_and_evaluate(trainer, test, model_args, data_args)


if __name__ == "__main__":
    run(main, "run_mlm.py")
