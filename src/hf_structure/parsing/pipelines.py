"""
Parsing as pipelines of transformers, which `import hf_structure` has registered when `transformers.pipelines` is
imported.
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
    A [`Parser`] whose results are JSON-ready: the dictionaries of [`~hf_structure.structures.Parse`], None for a
    sentence that is left out. It takes what [`parse`] takes, with its options, when it is made or called.
    """

    exported: type[SentencePipeline]  # what takes its place in a folder with the code of a model

    def __call__(self, inputs: Any, *args, tags: Any = None, initial: Any = None, **options):
        """
        A sentence gives one dictionary, inputs with a length a list of them, other inputs an iterator. With
        `sentences`, each text gives a list.
        """
        options.pop("num_workers", None)  # reading takes no time beside the model
        parser = self._parser({**(self.given or {}), **options})
        if isinstance(inputs, torch.utils.data.Dataset) and not isinstance(inputs, Iterable):
            inputs = _Items(inputs)
        return _ready(parser(inputs, tags=tags, initial=initial))

    def _parser(self, options: dict[str, Any]) -> Parser:
        known = {"structure": self.structure, "batch_size": self._batch_size}  # of which transformers takes the latter
        chosen = {name: value for name, value in {**known, **options}.items() if value is not None}
        return Parser(self.model, tokenizer=self.tokenizer, **chosen)

    def _parameters(self, **options):
        parser = self._parser(options)
        postprocess = {"structures": parser.structures, "punctuation": parser.options.punctuation}
        skipped = skipped_errors(parser.options.skip_long, parser.options.skip_empty)
        return {"encode": parser.encode, "skipped": skipped}, parser.decoding, postprocess


class _Items:
    """The items of a data set that only has a length and items by index, one by one."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self):
        return (self.dataset[index] for index in range(len(self.dataset)))


def _ready(parses: Any) -> Any:
    """Parses as JSON-ready values."""
    if isinstance(parses, Parse | Parses):
        return parses.to_dict()
    return None if parses is None else map(_ready, parses)


class DependencyParsingPipeline(ParsingPipeline):
    """`pipeline("dependency-parsing", model=...)`: the dependency trees of sentences. Options as in [`parse`]."""

    structure = "dependency"
    exported = DependencySentencePipeline


class ConstituencyParsingPipeline(ParsingPipeline):
    """`pipeline("constituency-parsing", model=...)`: the constituency trees of sentences. Options as in [`parse`]."""

    structure = "constituency"
    exported = ConstituencySentencePipeline


class GraphParsingPipeline(ParsingPipeline):
    """`pipeline("graph-parsing", model=...)`: the dependency graphs of sentences. Options as in [`parse`]."""

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
    # With it, `save_pretrained` would copy this file beside the model, where, unlike that of `export`, it cannot work.
    delattr(pipeline_class, "_registered_impl")
# That the default is a folder of this package, revision "main", deserves no warning.
logging.getLogger("transformers.pipelines").addFilter(lambda record: str(CHECKPOINTS) not in record.getMessage())
