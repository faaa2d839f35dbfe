"""Loads or makes the parser to train, and its tokenizer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.hub.locating import resolve_model
from hf_structure.models.families import family_of
from hf_structure.parsing.loading import load_trained, read_config, read_tokenizer
from hf_structure.registration.auto import AutoModelForDependencyParsing
from hf_structure.text.tokenization import SUBWORD_KINDS, train_subword_tokenizer, train_word_tokenizer
from hf_structure.training.corpora import words_of
from hf_structure.training.parsing.options import ParsingModelArguments, require_option
from hf_structure.training.parsing.rows import chains_of, predicted_columns
from hf_structure.training.scripts import check_settings, config_class_of, new_config, readable_settings


def load_tokenizer(args: ParsingModelArguments, sentences: Dataset | None) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of a trained parser or encoder, or a subword tokenizer; or trains a new one."""
    trust: dict[str, Any] = {"trust_remote_code": args.trust_remote_code}
    if args.model_name_or_path:
        return read_tokenizer(resolve_model(args.model_name_or_path, **trust), **trust)
    # A new parser is always trained, on some trees.
    trees = cast(Dataset, sentences)
    size = args.vocab_size
    if args.encoder is None and args.tokenizer_name == "words":
        options = {"min_frequency": args.min_frequency, "vocab_size": size, "skip_punctuation": False}
        tokenizer = train_word_tokenizer(words_of(trees), **options)
    elif args.encoder is None and args.tokenizer_name in SUBWORD_KINDS:
        options = {"kind": args.tokenizer_name, **({"vocab_size": size} if size else {})}
        tokenizer = train_subword_tokenizer(words_of(trees), **options)
    else:
        tokenizer = AutoTokenizer.from_pretrained(args.encoder or args.tokenizer_name, add_prefix_space=True, **trust)
        if tokenizer.pad_token is None:
            tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.init_kwargs["word_tokenizer"] = args.word_tokenizer
    return tokenizer


def load_model(
    args: ParsingModelArguments, settings: dict, tokenizer: PreTrainedTokenizerBase, sentences: Dataset | None
) -> PreTrainedModel:
    """Loads a trained parser, or makes a new one, from an encoder or from scratch."""
    settings = dict(settings)
    least = args.min_frequency
    if sentences is not None and "span_labels" in sentences.column_names:
        settings.setdefault("constituents", values_of(sentences, "span_labels", "constituents", least))
    if sentences is not None and args.columns:
        columns = {name: values_of(sentences, name, f"{name} (--columns)", least) for name in args.columns}
        settings["columns"] = columns
    if args.model_name_or_path:
        return _from_trained(args, settings)
    # A new parser is always trained, on some trees.
    trees = cast(Dataset, sentences)
    if args.use_tags:
        # Tags and labels become part of the configuration, so that parsing needs no training files.
        settings["tags"] = values_of(trees, "tags", "part-of-speech tags: leave --use_tags out")
        settings["num_tags"] = len(settings["tags"])
    # Encoders take the labels as an argument, new models as settings.
    labelled = settings.pop("labelled", True)
    labels = values_of(trees, "deprels", "relation labels: give --no_labels") if labelled else None
    if args.encoder:
        return _from_encoder(args, settings, tokenizer, labels)
    if labels:
        settings["id2label"] = dict(enumerate(labels))
    settings["labelled"] = labelled
    config = new_config(cast(str, args.model_type), settings, tokenizer, special=("unk", "pad"))
    return AutoModelForDependencyParsing.from_config(config)


def columns_of(args: ParsingModelArguments) -> set[str]:
    """Returns the names of the columns that the parser will predict; a trained one keeps those that it predicts."""
    if not args.model_name_or_path:
        return {*args.columns}
    _, config = _read_trained(args)
    return {*args.columns, *predicted_columns(config)}


def _read_trained(args: ParsingModelArguments) -> tuple[str, PreTrainedConfig]:
    """Returns the folder and the configuration of a trained parser."""
    trust = args.trust_remote_code
    folder = resolve_model(cast(str, args.model_name_or_path), trust_remote_code=trust)
    return str(folder), read_config(folder, "parser", trust)


def _from_trained(args: ParsingModelArguments, settings: dict) -> PreTrainedModel:
    """Loads a trained parser, with new weights for the constituents and columns in `settings` that it lacks."""
    folder, config = _read_trained(args)
    new_weights = []
    if "constituents" in settings:
        require_option(family_of(config), "constituents")
        if chains_of(config):
            del settings["constituents"]
        else:
            new_weights.append("constituents.")
    if "columns" in settings:
        require_option(family_of(config), "columns")
        known = predicted_columns(config)
        new = {name: values for name, values in settings["columns"].items() if name not in known}
        settings["columns"] = known | new
        new_weights += [f"tagger.columns.{name}." for name in new] if known else ["tagger."]
    options = (AutoModelForDependencyParsing, "parser", settings, args.trust_remote_code, tuple(new_weights))
    return load_trained(folder, *options)


def _from_encoder(
    args: ParsingModelArguments, settings: dict, tokenizer: PreTrainedTokenizerBase, labels: list[str] | None
) -> PreTrainedModel:
    model_type = cast(str, args.model_type)
    check_settings(model_type, settings)
    layers = {"num_layers": args.num_layers} if args.num_layers else {}
    model_class = AutoModelForDependencyParsing._model_mapping[config_class_of(model_type)]
    with readable_settings():
        return model_class.from_pretrained_encoder(args.encoder, tokenizer, labels=labels, **layers, **settings)


def values_of(sentences: Dataset, column: str, purpose: str, min_frequency: int = 1) -> list[str]:
    """Returns the distinct values of a column that are frequent enough, sorted. Raises `ValueError` without any."""
    counts = Counter()
    for batch in cast(Iterator[dict], sentences.select_columns(column).iter(1000)):
        for row in batch[column]:
            counts.update(row or ())
    values = {value for value, count in counts.items() if count >= min_frequency} - {"_", None}
    if not values:
        raise ValueError(f"the training trees have no {purpose}")
    return sorted(values)


def new_parameters(model: PreTrainedModel, args: ParsingModelArguments) -> list[str]:
    """Returns the names of the parameters that are not pretrained; all of a parser from scratch."""
    every = [name for name, _ in model.named_parameters()]
    if not args.encoder and not args.model_name_or_path:
        return every
    # Relations are embedded inside the encoder's own attention, but no pretrained encoder has such parameters.
    is_beneath = getattr(model.base_model, "encoder", None) is not None
    prefix = f"{model.base_model_prefix}.{'encoder.' if is_beneath else ''}"
    return [name for name in every if not name.startswith(prefix) or "_relations." in name]


def train_only(model: PreTrainedModel, names: Sequence[str]) -> None:
    """
    Freezes all of a parser but these modules, such as `tagger.columns.feats`. Raises `ValueError` if a module does not
    exist or has no weights.
    """
    modules = {name: module for name, module in model.named_modules() if [*module.parameters()]}
    if unknown := {*names} - {*modules}:
        known = ", ".join(name for name, _ in model.named_children() if name in modules)
        raise ValueError(
            f"--train_only: {', '.join(sorted(unknown))} cannot be trained. The modules with weights are {known}, and "
            "their parts"
        )
    model.requires_grad_(False)
    for name in names:
        modules[name].requires_grad_(True)
