"""
Parsing as pipelines of transformers, registered by `import hf_structure` once `transformers.pipelines` is imported.
"""

import logging
from collections.abc import Iterable
from typing import Any

import torch
from transformers.pipelines import PIPELINE_REGISTRY

from hf_structure.hub.locating import CHECKPOINTS
from hf_structure.parsing.encoding import skipped_errors
from hf_structure.parsing.options import DEFAULT_PARSER
from hf_structure.parsing.parser import Parser
from hf_structure.parsing.sentence_pipeline import (
    ConstituencySentencePipeline,
    DependencySentencePipeline,
    GraphSentencePipeline,
    SentencePipeline,
)
from hf_structure.registration.auto import AutoModelForConstituencyParsing, AutoModelForDependencyParsing
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses


class ParsingPipeline(SentencePipeline):
    """
    A [`Parser`] with JSON-ready results: the dictionaries of [`~hf_structure.structures.Parse`], None for a skipped
    sentence. It takes the inputs of [`parse`]; options can be given at construction or in a call.
    """

    exported: type[SentencePipeline]  # its replacement in a folder exported with code

    def __call__(self, inputs: Any, *args, tags: Any = None, initial: Any = None, **options):
        """
        Returns one dictionary for a sentence, a list of them for inputs with a length, and an iterator for others.
        With `sentences`, the result for each text is a list.
        """
        options.pop("num_workers", None)  # reading takes no time compared to the model
        parser = self._parser({**(self.given or {}), **options})
        # A map-style data set of torch has `__getitem__` but need not be iterable.
        if isinstance(inputs, torch.utils.data.Dataset) and not isinstance(inputs, Iterable):
            inputs = _Items(inputs)
        return _ready(parser(inputs, tags=tags, initial=initial))

    def _parser(self, options: dict[str, Any]) -> Parser:
        # transformers takes `batch_size` out of the options of the constructor.
        defaults = {"structure": self.structure, "batch_size": self._batch_size}
        chosen = {name: value for name, value in {**defaults, **options}.items() if value is not None}
        return Parser(self.model, tokenizer=self.tokenizer, **chosen)

    def _parameters(self, **options):
        parser = self._parser(options)
        postprocess = {"structures": parser.structures, "punctuation": parser.options.punctuation}
        skipped = skipped_errors(parser.options.skip_long, parser.options.skip_empty)
        return {"encode": parser.encode, "skipped": skipped}, parser.decoding, postprocess


class _Items:
    """Iterates over a data set that has only `__len__` and `__getitem__`."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self):
        return (self.dataset[index] for index in range(len(self.dataset)))


def _ready(parses: Any) -> Any:
    """Converts parses to JSON-ready values."""
    if isinstance(parses, Parse | Parses):
        return parses.to_dict()
    return None if parses is None else map(_ready, parses)


class DependencyParsingPipeline(ParsingPipeline):
    """`pipeline("dependency-parsing", model=...)`: dependency trees of sentences. Options as in [`parse`]."""

    structure = "dependency"
    exported = DependencySentencePipeline


class ConstituencyParsingPipeline(ParsingPipeline):
    """`pipeline("constituency-parsing", model=...)`: constituency trees of sentences. Options as in [`parse`]."""

    structure = "constituency"
    exported = ConstituencySentencePipeline


class GraphParsingPipeline(ParsingPipeline):
    """`pipeline("graph-parsing", model=...)`: dependency graphs of sentences. Options as in [`parse`]."""

    structure = "graph"
    exported = GraphSentencePipeline


for task, pipeline_class, auto_class, model in (
    ("dependency-parsing", DependencyParsingPipeline, AutoModelForDependencyParsing, DEFAULT_PARSER),
    ("constituency-parsing", ConstituencyParsingPipeline, AutoModelForConstituencyParsing, "structformer-en"),
    ("graph-parsing", GraphParsingPipeline, AutoModelForDependencyParsing, "gilt-en"),
):
    PIPELINE_REGISTRY.register_pipeline(
        task,
        pipeline_class=pipeline_class,
        pt_model=auto_class,
        default={"model": (str(CHECKPOINTS / model), "main")},
        type="text",
    )
    # Otherwise `save_pretrained` would copy this file next to the model, where, unlike exported code, it cannot run.
    delattr(pipeline_class, "_registered_impl")
# The default model is a folder of this package, which has no revisions: "main" avoids a warning.
logging.getLogger("transformers.pipelines").addFilter(lambda record: str(CHECKPOINTS) not in record.getMessage())
