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
"""

import argparse
import inspect
import json
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
import transformers
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    EarlyStoppingCallback,
    HfArgumentParser,
    TrainerState,
    TrainingArguments,
    set_seed,
)

import hf_structure
from hf_structure.data.collators import MaskedWordCollator
from hf_structure.data.corpus import load_sentences
from hf_structure.tokenization import encode, train_word_tokenizer
from hf_structure.training import MaskedLMTrainer, last_complete_checkpoint

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
class ModelArguments:
    _argument_group_name: ClassVar[str] = "model"

    model_type: str | None = field(
        default=None,
        metadata={"help": f"Family of a model trained from scratch: {', '.join(FAMILIES)}."},
    )
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Model and tokenizer to go on training from (folder, short name or Hub name)."}
    )
    tokenizer_name: str | None = field(
        default=None,
        metadata={"help": "Tokenizer of subwords (folder or Hub name); by default a vocabulary of words is made."},
    )
    config_overrides: str | None = field(
        default=None, metadata={"help": "Settings of a new model, as JSON: '{\"hidden_size\": 256}'."}
    )


@dataclass
class DataArguments:
    _argument_group_name: ClassVar[str] = "data"

    train_file: list[str] | None = field(
        default=None, metadata={"help": "Training text, one or more files; without it, the model is only evaluated."}
    )
    validation_file: list[str] | None = field(default=None, metadata={"help": "Validation text, one or more files."})
    test_file: list[str] | None = field(
        default=None, metadata={"help": "Text that the best checkpoint is evaluated on at the end."}
    )
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
    max_length: int = field(default=256, metadata={"help": "Longer training sentences are left out (and counted)."})
    max_tokens: int = field(default=4096, metadata={"help": "Tokens of a batch on one device, padding counted."})
    mask_rate: float = field(default=0.3, metadata={"help": "Share of the words that are masked."})
    num_maskings: int = field(default=5, metadata={"help": "Maskings of the text that evaluation averages over."})


@dataclass
class MLMTrainingArguments(TrainingArguments):
    """`TrainingArguments` with the defaults of the UDGN paper."""

    _argument_group_name: ClassVar[str] = "training: all options of transformers.TrainingArguments"

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
    eval_strategy: str = field(default="epoch", metadata={"help": "When to evaluate."})
    save_strategy: str = field(default="epoch", metadata={"help": "When to save; the best checkpoint is kept."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints kept, the best one included."})
    load_best_model_at_end: bool = field(default=True, metadata={"help": "Whether to end with the best checkpoint."})
    metric_for_best_model: str | None = field(default="loss", metadata={"help": "What makes a checkpoint the best."})
    logging_steps: float = field(
        default=0, metadata={"help": "Log the training loss every so many steps; by default once an epoch."}
    )
    early_stopping_patience: int | None = field(
        default=10, metadata={"help": "Stop after this many evaluations without a better one; 0 never stops."}
    )
    restore_callback_states_from_checkpoint: bool = field(
        default=True, metadata={"help": "Whether a resumed run remembers the patience that is left."}
    )
    report_to: str | None = field(default="none", metadata={"help": "Where to report to, e.g. tensorboard."})

    def __post_init__(self):
        if self.output_dir is None:
            raise ValueError("--output_dir is needed")
        if self.logging_strategy == "steps" and not self.logging_steps:
            self.logging_strategy = "epoch"
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or else each of several processes would train by itself
        super().__post_init__()


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Names the defaults, and leaves the lines of the description as they are."""


def parse_arguments() -> tuple[ModelArguments, DataArguments, MLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    parser = HfArgumentParser(
        (ModelArguments, DataArguments, MLMTrainingArguments),
        description=__doc__,
        usage="%(prog)s [--config FILE] [--model_type udgn] --train_file FILE ... --output_dir FOLDER [option ...]",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", help="JSON file with 'model' (its settings) and 'options' (of this script)")
    known = parser.parse_known_args()[0]
    content = read_json(Path(known.config).read_text(encoding="utf-8"), known.config) if known.config else {}
    settings, options = content.get("model", {}), content.get("options", {})
    unknown = set(options) - {action.dest for action in parser._actions}
    if unknown:
        raise ValueError(f"{known.config}: unknown options {', '.join(sorted(unknown))}")
    family = FAMILIES.get(settings.get("model_type", known.model_type), FAMILIES["udgn"])
    parser.set_defaults(**{"learning_rate": family.learning_rate} | options)
    *parsed, _, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True, look_for_args_file=False)
    if rest:
        raise ValueError(f"unknown options: {' '.join(rest)}")
    model_args, data_args, training_args = parsed
    if model_args.config_overrides:
        settings |= read_json(model_args.config_overrides, "--config_overrides")
    if data_args.train_file and not data_args.validation_file:
        raise ValueError("--validation_file is needed with --train_file: it tells the best checkpoint")
    if not data_args.train_file and not model_args.model_name_or_path:
        raise ValueError("--train_file is needed to train, or --model_name_or_path to evaluate a trained model")
    if not data_args.train_file and not (data_args.validation_file or data_args.test_file):
        raise ValueError("there is nothing to do: give --train_file, --validation_file or --test_file")
    if not data_args.train_file:
        training_args.eval_strategy = "no"
    return model_args, data_args, training_args, settings


def read_json(text: str, name: str) -> dict:
    """A JSON object; `name` says in errors where it stands."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{name}: not a JSON object: {text}")
    return values


def load_words(files: list[str], args: DataArguments) -> list[dict]:
    """Sentences of all files, without punctuation if so chosen."""
    sentences = []
    for file in files:
        before = len(sentences)
        sentences += load_sentences(file, punctuation=args.punctuation, by=args.punctuation_by)
        logger.info("%s: %d sentences", file, len(sentences) - before)
    if not sentences:
        raise ValueError(f"{', '.join(files)}: no sentences")
    return sentences


def to_dataset(sentences: list[dict], tokenizer) -> Dataset:
    """Word ids, lengths, and heads and spans if every sentence has them."""
    encoded = [encode(sentence["words"], tokenizer) for sentence in sentences]
    columns = {name: [sentence[name] for sentence in encoded] for name in encoded[0]}
    columns["length"] = [len(ids) for ids in columns["input_ids"]]
    if all(sentence["heads"] is not None for sentence in sentences):
        columns["heads"] = [sentence["heads"] for sentence in sentences]
    if all(sentence["spans"] is not None for sentence in sentences):
        columns["spans"] = [[[start, end] for start, end, _ in sentence["spans"]] for sentence in sentences]
    return Dataset.from_dict(columns)


def load_training_text(args: DataArguments) -> list[dict]:
    """Training sentences that are not too long."""
    sentences = load_words(args.train_file, args)
    kept = [sentence for sentence in sentences if len(sentence["words"]) <= args.max_length]
    if len(kept) < len(sentences):
        logger.warning("%d sentences longer than %d words left out", len(sentences) - len(kept), args.max_length)
    if not kept:
        raise ValueError(f"no training sentence has at most {args.max_length} words (--max_length)")
    return kept


def load_tokenizer(model_args: ModelArguments, data_args: DataArguments, sentences: list[dict]):
    """The trained model's tokenizer, a given one of subwords, or a new one of words."""
    if model_args.model_name_or_path:
        return AutoTokenizer.from_pretrained(hf_structure.resolve_model(model_args.model_name_or_path))
    if model_args.tokenizer_name:
        tokenizer = AutoTokenizer.from_pretrained(model_args.tokenizer_name, add_prefix_space=True)
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


def load_model(args: ModelArguments, settings: dict, tokenizer):
    """A trained model, or a new one of a family."""
    if args.model_name_or_path:
        return AutoModelForMaskedLM.from_pretrained(hf_structure.resolve_model(args.model_name_or_path))
    settings = {"model_type": args.model_type, **settings}
    name = settings.pop("model_type")
    if not name:
        raise ValueError("--model_type, --model_name_or_path or a --config with a model_type is needed")
    settings = FAMILIES[name].settings | settings if name in FAMILIES else {"model_type": name, **settings}
    family = settings.pop("model_type")
    if family not in CONFIG_MAPPING:
        raise ValueError(f"there is no model family {family!r}")
    unknown = [name for name in settings if not hasattr(CONFIG_MAPPING[family](), name)]
    if unknown:
        raise ValueError(f"{family} has no settings {', '.join(unknown)}")
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("unk", "pad", "mask")}
    try:
        config = AutoConfig.for_model(family, **settings, vocab_size=len(tokenizer), **special)
    except StrictDataclassError as error:
        raise ValueError(" ".join(str(error).split())) from error
    model = AutoModelForMaskedLM.from_config(config)
    if args.tokenizer_name and "word_ids" not in inspect.signature(getattr(model, "decode", dict)).parameters:
        raise ValueError(f"{name} parses words, not subwords: leave --tokenizer_name out")
    return model


def build_trainer(model, tokenizer, sentences: list[dict], data_args, training_args) -> MaskedLMTrainer:
    """Trainer with the papers' optimiser: Adam with the weight decay in the gradient."""
    validation = load_words(data_args.validation_file, data_args) if data_args.validation_file else []
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=training_args.learning_rate,
        betas=(training_args.adam_beta1, training_args.adam_beta2),
        eps=training_args.adam_epsilon,
        weight_decay=training_args.weight_decay,
    )
    patience = training_args.early_stopping_patience
    return MaskedLMTrainer(
        model=model,
        args=training_args,
        train_dataset=to_dataset(sentences, tokenizer) if sentences else None,
        eval_dataset=to_dataset(validation, tokenizer) if validation else None,
        data_collator=MaskedWordCollator.from_tokenizer(
            tokenizer, mask_rate=data_args.mask_rate, seed=training_args.seed
        ),
        processing_class=tokenizer,
        optimizers=(optimizer, None),
        callbacks=[EarlyStoppingCallback(patience)] if patience and sentences else [],
        max_tokens=data_args.max_tokens,
        num_maskings=data_args.num_maskings,
    )


def find_checkpoint(model, tokenizer, args: MLMTrainingArguments) -> str | None:
    """Where an interrupted run goes on. `ValueError` if another model or vocabulary was trained there."""
    checkpoint = args.resume_from_checkpoint or last_complete_checkpoint(args.output_dir)
    if not checkpoint:
        return None
    state = TrainerState.load_from_json(str(Path(checkpoint, "trainer_state.json")))
    saved, config = AutoConfig.from_pretrained(checkpoint), model.config
    names = inspect.get_annotations(type(config)) if type(saved) is type(config) else ["model_type"]
    changed = [name for name in names if getattr(saved, name) != getattr(config, name)]
    if AutoTokenizer.from_pretrained(checkpoint).get_vocab() != tokenizer.get_vocab():
        changed.append("vocabulary")
    if changed:
        raise ValueError(f"{checkpoint} is of another run ({', '.join(changed)} differ): choose another --output_dir")
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = args.early_stopping_patience
    if patience and stopping.get("early_stopping_patience_counter", 0) >= patience:
        args.num_train_epochs = state.epoch  # it had stopped by itself, and does not go on
    logger.info("going on from %s", checkpoint)
    return checkpoint


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    logging.basicConfig(level=logging.INFO if training_args.should_log else logging.WARNING, format="%(message)s")
    transformers.utils.logging.set_verbosity_error()  # warns of tied weights whenever a checkpoint is loaded
    transformers.utils.logging.disable_progress_bar()  # of saving: training has its own
    set_seed(training_args.seed)

    sentences = load_training_text(data_args) if data_args.train_file else []
    tokenizer = load_tokenizer(model_args, data_args, sentences)
    model = load_model(model_args, settings, tokenizer)
    logger.info("%d words, %d parameters", len(tokenizer), model.num_parameters())
    trainer = build_trainer(model, tokenizer, sentences, data_args, training_args)
    if sentences:
        checkpoint = find_checkpoint(model, tokenizer, training_args)
        result = trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model()
        report(trainer, "train", result.metrics)
        trainer.save_state()
    if data_args.validation_file:
        report(trainer, "eval", trainer.evaluate())
    if data_args.test_file:
        test = to_dataset(load_words(data_args.test_file, data_args), tokenizer)
        report(trainer, "test", trainer.evaluate(test, metric_key_prefix="test"))


def report(trainer: MaskedLMTrainer, split: str, metrics: dict[str, float]) -> None:
    trainer.log_metrics(split, metrics)
    trainer.save_metrics(split, metrics)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("run_mlm.py: stopped; the same command goes on from the last checkpoint")
    except (ValueError, OSError) as error:
        filename = getattr(error, "filename", None)
        sys.exit(f"run_mlm.py: {f'{filename}: {error.strerror}' if filename else error}")
