"""
Parsing as pipelines of transformers, which `import hf_structure` has registered when `transformers.pipelines` is
imported.
"""

import logging
from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase
from transformers.pipelines import PIPELINE_REGISTRY, Pipeline

from hf_structure.auto import AutoModelForConstituencyParsing, AutoModelForDependencyParsing
from hf_structure.hub.locating import CHECKPOINTS
from hf_structure.pipelines.options import DEFAULT_PARSER
from hf_structure.pipelines.parser import Parser
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses


class ParsingPipeline(Pipeline):
    """
    A [`Parser`] whose results are JSON-ready: the dictionaries of [`~hf_structure.structures.Parse`], None for a
    sentence that is left out. It takes what [`parse`] takes, with its options, when it is made or called.
    """

    structure: str  # what is given if the call does not say otherwise
    tokenizer: PreTrainedTokenizerBase

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args, **kwargs):
        self._given: dict[str, Any] = {}
        super().__init__(*args, **{"structure": self.structure, **kwargs})

    def __call__(self, inputs: Any, *args, tags: Any = None, initial: Any = None, **options):
        """
        A sentence gives one dictionary, inputs with a length a list of them, other inputs an iterator. With
        `sentences`, each text gives a list.
        """
        options.pop("num_workers", None)  # reading takes no time beside the model
        parser = self._parser(**options)
        if isinstance(inputs, torch.utils.data.Dataset) and not isinstance(inputs, Iterable):
            inputs = _Items(inputs)
        return _ready(parser(inputs, tags=tags, initial=initial))

    def _parser(self, **options) -> Parser:
        if self._batch_size is not None:  # which transformers takes out of the options
            options = {"batch_size": self._batch_size, **options}
        return Parser(self.model, tokenizer=self.tokenizer, **{**self._given, **options})

    def _sanitize_parameters(self, **options):
        """Keeps the options that the pipeline is made with. The steps, which the base class asks for, have none."""
        self._given = options
        self._parser()  # raises errors of options
        return {}, {}, {}

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        return {"inputs": inputs}

    def _forward(self, model_inputs: dict[str, Any]) -> dict[str, Any]:
        return {"parses": self._parser()(model_inputs["inputs"])}

    def postprocess(self, model_outputs: dict[str, Any]) -> Any:
        return _ready(model_outputs["parses"])


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


class ConstituencyParsingPipeline(ParsingPipeline):
    """`pipeline("constituency-parsing", model=...)`: the constituency trees of sentences. Options as in [`parse`]."""

    structure = "constituency"


class GraphParsingPipeline(ParsingPipeline):
    """`pipeline("graph-parsing", model=...)`: the dependency graphs of sentences. Options as in [`parse`]."""

    structure = "graph"


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
