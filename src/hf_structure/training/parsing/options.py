"""Options of the script that trains parsers."""

from dataclasses import dataclass, field
from typing import ClassVar

from hf_structure.models.families import Family, families_of, family_of
from hf_structure.text.words import WORD_TOKENIZERS
from hf_structure.training.arguments import DataArguments, ModelArguments, RunArguments, option
from hf_structure.training.parsing.sentences import PREDICTED
from hf_structure.training.parsing.typed_text import MIXED, STYLES, read_shares
from hf_structure.training.scripts import config_class_of

VARIANTS = families_of("parsing")
DEFAULT_FAMILY = "g2g_transformer"
# Options that only some families have, see `Family.options`, with the reason for their error message.
OF_FAMILIES = {
    "use_swap": "a g2g_transformer: others predict crossing arcs as they are",
    "columns": "a rng_transformer: others predict heads and labels alone",
    "initial_train_file": "a rng_transformer: others read no given trees",
    "constituents": "a rng_transformer: others do not learn constituents from brackets",
    "teacher": "a rng_transformer: others do not predict all arcs at once",
}


@dataclass
class ParsingModelArguments(ModelArguments):
    """Options of the parser."""

    needs: ClassVar[dict[str, str]] = {
        "num_layers": "encoder",
        "train_only": "train_file",
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
        "Number of the encoder's layers to use, from the first; by default 6 in a g2g_transformer, "
        "all in a rng_transformer.",
    )
    tokenizer_name: str = option(
        "words",
        "From scratch: words, unigram or bpe for a vocabulary of the training trees, or a tokenizer of "
        "subwords (folder or Hub name).",
    )
    word_tokenizer: str = option(
        "english", "Rule that splits raw text into words as in the trees.", choices=list(WORD_TOKENIZERS)
    )
    min_frequency: int = option(2, "Words that occur fewer times in the training text are unknown.")
    vocab_size: int | None = option(None, "Maximum size of a new vocabulary.")
    use_swap: bool = option(False, "Learn and predict crossing arcs.")
    no_labels: bool = option(False, "Predict no relation labels.")
    use_tags: bool = option(False, "Read part-of-speech tags, too (XPOS, or else UPOS).")
    columns: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Further columns to predict for each word, without values that occur fewer than --min_frequency "
            "times. Without a name, the columns of --config are left out. A trained parser keeps the columns that it "
            "predicts, and learns these too.",
            "choices": list(PREDICTED),
        },
    )
    train_only: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Modules of the parser that learn, such as tagger or tagger.columns.feats; all others keep their "
            "weights. The error for an unknown module lists those that exist."
        },
    )
    use_lexicon: bool = option(
        False,
        "Correct predicted lemmas with the words of the first training file and the lemmas of all files.",
    )
    teacher: str | None = option(
        None,
        "A trained rng_transformer (name or folder) whose probabilities are learned in addition to the trees.",
    )
    teacher_columns: list[str] | None = option(
        None,
        "The --columns to learn from the teacher; by default all that it predicts.",
        choices=list(PREDICTED),
    )
    teacher_weight: float = option(1.0, "Weight of the loss for the teacher's probabilities; the trees have weight 1.")


@dataclass
class ParsingDataArguments(DataArguments):
    """Options of the treebanks."""

    needs: ClassVar[dict[str, str]] = {"typed_copies": "train_file"}
    of_evaluation: ClassVar[tuple[str, ...]] = (*DataArguments.of_evaluation, "punctuation_by", "tell_treebank")

    treebanks: list[str] = field(
        default_factory=list,
        metadata={"help": "Name of the treebank of each training file; evaluation follows the first."},
    )
    sampling_power: float = option(
        1.0,
        "In an epoch, sentences are drawn from each training treebank in proportion to its size raised to this "
        "power; 0 weighs all treebanks equally.",
    )
    tell_treebank: bool = option(False, "Evaluate each treebank in its own style instead of the first treebank's.")
    initial_train_file: list[str] | None = option(
        None, "Initial trees of the training sentences, from another parser, to be refined."
    )
    initial_validation_file: list[str] | None = option(None, "Initial trees of the validation sentences.")
    initial_test_file: list[str] | None = option(None, "Initial trees of the test sentences.")
    constituents: list[str] | None = option(
        None,
        "Constituency trees to learn too, in brackets. A training sentence of the same words has both; the other "
        "trees are sentences of their own.",
    )
    functions: bool = option(
        False, "Keep the functions of constituents in their labels, as in NP-SBJ, and learn to predict them."
    )
    validation_constituents: list[str] | None = option(None, "Constituency trees of the validation sentences.")
    test_constituents: list[str] | None = option(None, "Constituency trees of the test sentences.")
    typed_copies: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Copies of training sentences and paragraphs as people type them, each a style and a share of the "
            f"text: bare=0.2 copies a fifth of it. Styles: {', '.join(STYLES)} (bare is lower case without "
            f"punctuation), and {MIXED}, another style for each sentence of a paragraph."
        },
    )
    max_tokens: int = option(
        512, "Words of a batch on one device, including padding; pieces, if the encoder reads pieces."
    )
    punctuation_by: str = option(
        "auto", "How evaluation recognizes punctuation.", choices=["auto", "deprel", "tags", "form"]
    )

    @property
    def brackets(self) -> dict[str, list[str] | None]:
        """The files of constituency trees of each part."""
        return {"train": self.constituents, "validation": self.validation_constituents, "test": self.test_constituents}


@dataclass
class ParsingTrainingArguments(RunArguments):
    """`TrainingArguments` with the optimiser and schedule of the paper."""

    learning_rate: float = option(1e-5, "Highest learning rate of pretrained parameters.")
    new_learning_rate: float = option(3e-4, "Highest learning rate of the others.")
    adam_epsilon: float = option(1e-6, "Epsilon of AdamW.")
    weight_decay: float = option(0.01, "Weight decay of AdamW.")
    max_grad_norm: float = option(1.0, "Maximum norm of the gradient.")
    warmup_steps: float = option(0.01, "Warm-up steps of the learning rates, or their share if below 1.")
    num_train_epochs: float = option(12, "Number of passes over the training trees.")
    metric_for_best_model: str | None = option(
        "las", "Metric of the best checkpoint: las, uas, las_no_punct or uas_no_punct."
    )


def check_options(
    args: ParsingModelArguments,
    data_args: ParsingDataArguments,
    training_args: ParsingTrainingArguments,
    settings: dict,
) -> None:
    """Raises `ValueError` for an unknown family, and for options that have no effect here or contradict others."""
    family = family_of(config_class_of(settings.get("model_type", DEFAULT_FAMILY)))
    if family is None or family.objective != "parsing":
        raise ValueError(f"this script trains models of the types {' and '.join(VARIANTS)}, or your own like them")
    if args.use_swap:
        require_option(family, "use_swap")
    if args.model_name_or_path:
        _check_trained(args, data_args)
    else:
        _check_predicted(args, data_args, family)
    _check_new(args)
    read_shares(data_args.typed_copies)
    if data_args.functions and not any(data_args.brackets.values()):
        raise ValueError(
            "--functions has no effect without --constituents (or --validation_constituents, --test_constituents)"
        )
    if training_args.label_smoothing_factor:
        raise ValueError("--label_smoothing_factor is for language models: the losses of parsers have none")


def _check_predicted(args: ParsingModelArguments, data_args: ParsingDataArguments, family: Family) -> None:
    """Raises `ValueError` for what the family of a new parser cannot predict, and for a lexicon without tags."""
    for name, given in (("columns", args.columns), ("constituents", data_args.constituents)):
        if given:
            require_option(family, name)
    if args.use_lexicon and not {"lemma", "upos"} <= {*args.columns}:
        raise ValueError("--use_lexicon corrects lemmas by their tags: it needs --columns lemma upos")


def _check_trained(args: ParsingModelArguments, data_args: ParsingDataArguments) -> None:
    """Raises `ValueError` for what a trained parser can learn to predict, but is not trained to."""
    for name in ("columns", "use_lexicon"):
        if getattr(args, name) and not data_args.train_file:
            raise ValueError(f"--{name} needs a --train_file: without it, the parser is evaluated as it is")


def _check_new(args: ParsingModelArguments) -> None:
    """Raises `ValueError` for options of new parsers together with a trained one, and for two tokenizers."""
    of_new_parsers = ("encoder", "use_swap", "no_labels", "use_tags")
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
