"""
Train a masked language model that induces sentence structure, on raw or annotated text.

    accelerate launch examples/run_mlm.py --model_type udgn \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/udgn

Files are CoNLL-U, PTB brackets or text (one sentence a line, words separated by spaces), by their suffix; several
files may be given. Only the words are trained on. Where the validation file has dependency trees, UAS and UUAS are
reported beside the masked perplexity. The defaults are the optimiser and schedule of the UDGN paper; `--config` takes
a file with the sizes and settings of a published model (see `examples/configs`), which further options override. A
run that was stopped goes on from its last complete checkpoint when the same command is given again.
"""

import dataclasses
import json
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    EarlyStoppingCallback,
    HfArgumentParser,
    TrainingArguments,
    set_seed,
)

import hf_structure
from hf_structure.data.collators import MaskedWordCollator
from hf_structure.data.corpus import load_sentences
from hf_structure.tokenization import encode_words, train_word_tokenizer
from hf_structure.training import MaskedLMTrainer, last_complete_checkpoint

logger = logging.getLogger("run_mlm")


@dataclass
class ModelArguments:
    model_type: str | None = field(default=None, metadata={"help": "Family of a model trained from scratch: udgn."})
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Model and tokenizer to go on training from (folder, short name or Hub name)."}
    )
    config_overrides: str | None = field(
        default=None, metadata={"help": 'Settings of a new model, as JSON: \'{"hidden_size": 256}\'.'}
    )


@dataclass
class DataArguments:
    train_file: list[str] | None = field(default=None, metadata={"help": "Training text, one or more files."})
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
    min_frequency: int = field(default=5, metadata={"help": "Words seen fewer times in the training text are unknown."})
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

    learning_rate: float = field(default=1e-3, metadata={"help": "Initial learning rate of Adam."})
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
    early_stopping_patience: int | None = field(
        default=10, metadata={"help": "Stop after this many evaluations without a better one; 0 never stops."}
    )
    restore_callback_states_from_checkpoint: bool = field(
        default=True, metadata={"help": "Whether a resumed run remembers the patience that is left."}
    )
    report_to: str | None = field(default="none", metadata={"help": "Where to report to, e.g. tensorboard."})


def parse_arguments() -> tuple[ModelArguments, DataArguments, MLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    parser = HfArgumentParser(
        (ModelArguments, DataArguments, MLMTrainingArguments), description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--config", help="JSON file with 'model' (settings of the model) and 'options' (of this script)")
    config_file = parser.parse_known_args()[0].config
    settings = {}
    if config_file:
        content = json.loads(Path(config_file).read_text(encoding="utf-8"))
        unknown = set(content.get("options", {})) - {action.dest for action in parser._actions}
        if unknown:
            raise ValueError(f"{config_file}: unknown options {', '.join(sorted(unknown))}")
        parser.set_defaults(**content.get("options", {}))
        settings = content.get("model", {})
    model_args, data_args, training_args, _ = parser.parse_args_into_dataclasses()
    if model_args.config_overrides:
        settings |= json.loads(model_args.config_overrides)
    for name in ("train_file", "validation_file"):
        if not getattr(data_args, name):
            raise ValueError(f"--{name} is needed")
    return model_args, data_args, training_args, settings


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


def encode(sentences: list[dict], tokenizer) -> Dataset:
    """Word ids, lengths, and heads if every sentence has them."""
    columns = {"input_ids": [encode_words(sentence["words"], tokenizer) for sentence in sentences]}
    columns["length"] = [len(ids) for ids in columns["input_ids"]]
    if all(sentence["heads"] is not None for sentence in sentences):
        columns["heads"] = [sentence["heads"] for sentence in sentences]
    return Dataset.from_dict(columns)


def load_model(args: ModelArguments, settings: dict, tokenizer, data_args: DataArguments):
    """A new model of a family, or a trained one."""
    if args.model_name_or_path:
        return AutoModelForMaskedLM.from_pretrained(hf_structure.resolve_model(args.model_name_or_path))
    settings = {"model_type": args.model_type, **settings}
    if not settings["model_type"]:
        raise ValueError("--model_type, --model_name_or_path or a --config with a model_type is needed")
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("unk", "pad", "mask")}
    config = AutoConfig.for_model(**settings, vocab_size=len(tokenizer), **special)
    return AutoModelForMaskedLM.from_config(config)


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    logging.basicConfig(level=logging.INFO if training_args.should_log else logging.WARNING, format="%(message)s")
    transformers.utils.logging.set_verbosity_warning()
    set_seed(training_args.seed)

    sentences = load_words(data_args.train_file, data_args)
    kept = [sentence for sentence in sentences if len(sentence["words"]) <= data_args.max_length]
    if len(kept) < len(sentences):
        logger.warning("%d sentences longer than %d words left out", len(sentences) - len(kept), data_args.max_length)
    if model_args.model_name_or_path:
        tokenizer = AutoTokenizer.from_pretrained(hf_structure.resolve_model(model_args.model_name_or_path))
    else:
        counted = load_words(data_args.vocabulary_file, data_args) if data_args.vocabulary_file else kept
        tokenizer = train_word_tokenizer(
            (sentence["words"] for sentence in counted),
            min_frequency=data_args.min_frequency,
            vocab_size=data_args.vocab_size,
            skip_punctuation=data_args.punctuation == "drop",
        )
    model = load_model(model_args, settings, tokenizer, data_args)
    logger.info("%d words, %d parameters", len(tokenizer), model.num_parameters())

    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=training_args.learning_rate,
        betas=(training_args.adam_beta1, training_args.adam_beta2),
        eps=training_args.adam_epsilon,
        weight_decay=training_args.weight_decay,
    )
    callbacks = []
    if training_args.early_stopping_patience:
        callbacks.append(EarlyStoppingCallback(training_args.early_stopping_patience))
    trainer = MaskedLMTrainer(
        model=model,
        args=training_args,
        train_dataset=encode(kept, tokenizer),
        eval_dataset=encode(load_words(data_args.validation_file, data_args), tokenizer),
        data_collator=MaskedWordCollator.from_tokenizer(
            tokenizer, mask_rate=data_args.mask_rate, seed=training_args.seed
        ),
        processing_class=tokenizer,
        optimizers=(optimizer, None),
        callbacks=callbacks,
        max_tokens=data_args.max_tokens,
        num_maskings=data_args.num_maskings,
    )
    checkpoint = training_args.resume_from_checkpoint or last_complete_checkpoint(training_args.output_dir)
    result = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model()
    trainer.save_metrics("train", result.metrics)
    trainer.save_metrics("eval", trainer.evaluate())
    if data_args.test_file:
        test = encode(load_words(data_args.test_file, data_args), tokenizer)
        trainer.save_metrics("test", trainer.evaluate(test, metric_key_prefix="test"))
    trainer.save_state()


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"run_mlm.py: {error}")
