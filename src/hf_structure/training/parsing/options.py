"""Options of the script that trains parsers."""

from dataclasses import dataclass, field
from typing import ClassVar

from hf_structure.models.families import Family, families_of, family_of
from hf_structure.text.words import WORD_TOKENIZERS
from hf_structure.training.arguments import DataArguments, ModelArguments, RunArguments, option
from hf_structure.training.parsing.sentences import PREDICTED
from hf_structure.training.scripts import config_class_of

VARIANTS = families_of("parsing")
DEFAULT_FAMILY = "g2g_transformer"
# Options that only some families have, see `Family.options`: the families, and what the others do.
OF_FAMILIES = {
    "use_swap": "a g2g_transformer: others predict crossing arcs as they are",
    "columns": "a rng_transformer: others predict heads and labels alone",
    "initial_train_file": "a rng_transformer: others read no given trees",
    "constituents": "a rng_transformer: others do not learn constituents from brackets",
    "teacher": "a rng_transformer: others do not predict all arcs at once",
}


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
    constituents: list[str] | None = option(
        None,
        "Constituency trees to learn too, in brackets. A training sentence with the same words has both trees; others "
        "are learned by their constituents alone.",
    )
    validation_constituents: list[str] | None = option(None, "The constituency trees of validation sentences.")
    test_constituents: list[str] | None = option(None, "The constituency trees of test sentences.")
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


def check_options(
    args: ParsingModelArguments,
    data_args: ParsingDataArguments,
    training_args: ParsingTrainingArguments,
    settings: dict,
) -> None:
    """Raises `ValueError` for an unknown family, and for options that have no meaning here or beside others."""
    family = family_of(config_class_of(settings.get("model_type", DEFAULT_FAMILY)))
    if family is None or family.objective != "parsing":
        raise ValueError(f"this script trains models of the types {' and '.join(VARIANTS)}, or your own like them")
    if args.use_swap:
        require_option(family, "use_swap")
    if args.columns:
        require_option(family, "columns")
    if data_args.constituents and not args.model_name_or_path:
        require_option(family, "constituents")
    if args.use_lexicon and not {"lemma", "upos", "xpos"} <= {*args.columns} and not args.model_name_or_path:
        raise ValueError("--use_lexicon corrects lemmas by their tags: it needs --columns lemma upos xpos")
    _check_new(args)
    if training_args.label_smoothing_factor:
        raise ValueError("--label_smoothing_factor is for language models: the losses of parsers have none")


def _check_new(args: ParsingModelArguments) -> None:
    """Raises `ValueError` for options of new parsers beside a trained one, and for two tokenizers."""
    of_new_parsers = ("encoder", "use_swap", "no_labels", "use_tags", "columns", "use_lexicon")
    given = {name for name in of_new_parsers if getattr(args, name)}
    if args.tokenizer_name != "words":
        given.add("tokenizer_name")
    if args.model_name_or_path and given:
        raise ValueError(f"--{min(given)} is for a new parser: that of --model_name_or_path is as it was trained")
    if {"encoder", "tokenizer_name"} <= given:
        raise ValueError("--tokenizer_name is for a parser from scratch: an --encoder has its own")


def require_option(family: Family | None, name: str) -> None:
    """Raises `ValueError` if a family does not have an option of `OF_FAMILIES`."""
    if family is None or name not in family.options:
        raise ValueError(f"--{name} is for {OF_FAMILIES[name]}")
