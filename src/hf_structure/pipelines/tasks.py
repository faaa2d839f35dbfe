"""
Parsing as pipelines of transformers, which `import hf_structure` has registered when `transformers.pipelines` is
imported.
"""

import logging
import types
from collections.abc import Iterable, Sized
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase
from transformers.pipelines import PIPELINE_REGISTRY, Pipeline

from hf_structure.abilities import abilities_of
from hf_structure.auto import AutoModelForConstituencyParsing, AutoModelForDependencyParsing
from hf_structure.hub.locating import CHECKPOINTS
from hf_structure.pipelines.assembling import assemble_parse, sentences_of
from hf_structure.pipelines.encoding import (
    Sentence,
    encode_sentence,
    encoding_options,
    is_one_sentence,
    read_sentences,
    skipped_errors,
)
from hf_structure.pipelines.loading import choose_tokenizer
from hf_structure.pipelines.options import DEFAULT_PARSER
from hf_structure.pipelines.parsing import (
    check_input,
    check_punctuation,
    choose_structures,
    choose_treebank,
    decode_batch,
    search_options,
)


class ParsingPipeline(Pipeline):
    """
    Sentences in, JSON-ready dictionaries of [`~hf_structure.structures.Parse`] out, None for a sentence that is left
    out. A sentence is a string, a list of words, or a dictionary of `words` (or `text`) and, optionally, `tags` and
    `initial`, each as for [`parse`].
    """

    structure: str  # what is given if the call does not say otherwise
    tokenizer: PreTrainedTokenizerBase

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args, structure: str | None = None, **kwargs):
        super().__init__(*args, structure=structure or self.structure, **kwargs)
        check_input(self.model, self.tokenizer)

    def __call__(self, inputs: Sentence | Iterable[Sentence], *args, **options):
        """A string gives one dictionary, inputs with a length a list of them, other inputs an iterator."""
        if not isinstance(inputs, torch.utils.data.Dataset | types.GeneratorType):  # which transformers knows
            found: Any = read_sentences(inputs)
            if not is_one_sentence(found):
                is_list = isinstance(found, Sized)
                found = (sentence for sentence in found)
                found = list(found) if is_list else found
            inputs = found
        return [] if inputs == [] else super().__call__(inputs, *args, **options)

    def _sanitize_parameters(
        self,
        structure=None,
        decoder=None,
        k=None,
        beam_size=None,
        rounds=None,
        marginals=None,
        punctuation=None,
        word_tokenizer=None,
        treebank=None,
        max_words=None,
        skip_long=None,
        skip_empty=None,
    ):
        def given(**options):
            return {name: value for name, value in options.items() if value is not None}

        if punctuation is not None:
            check_punctuation(punctuation)
        structures = structure and choose_structures(self.model, structure)  # else those of the constructor
        if word_tokenizer is not None:
            word_tokenizer = choose_tokenizer(self.tokenizer, word_tokenizer)
        reading = {"word_tokenizer": word_tokenizer, "max_words": max_words}
        reading["treebank_id"] = choose_treebank(self.model, treebank)
        return (
            given(punctuation=punctuation, **reading, skip_long=skip_long, skip_empty=skip_empty),
            given(decoder=decoder, k=k, marginals=marginals, **search_options(self.model, beam_size, rounds)),
            given(structures=structures, punctuation=punctuation),
        )

    def preprocess(
        self, inputs: Sentence, skip_long: bool = False, skip_empty: bool = False, **options
    ) -> dict[str, Any]:
        options = {"word_tokenizer": choose_tokenizer(self.tokenizer), **encoding_options(self.model), **options}
        try:
            encoded = encode_sentence(inputs, self.tokenizer, **options)
        except skipped_errors(skip_long, skip_empty):
            encoded = None
        return {"encoded": encoded}

    def _forward(self, model_inputs: dict[str, Any], **options) -> dict[str, Any]:
        encoded = model_inputs["encoded"]  # of one sentence, or with batch_size a list
        batch = encoded if isinstance(encoded, list) else [encoded]
        places = [place for place, sentence in enumerate(batch) if sentence is not None]
        if not places:
            return {"encoded": encoded}
        decoded: list[dict | None] = [None] * len(batch)
        found = sentences_of(decode_batch([batch[place] for place in places], self.model, **options))
        for place, sentence in zip(places, found, strict=True):
            decoded[place] = sentence
        return {"encoded": encoded, "decoded": decoded if isinstance(encoded, list) else decoded[0]}

    def postprocess(self, model_outputs: dict[str, Any], **options) -> dict[str, Any] | None:
        if model_outputs["encoded"] is None:
            return None
        return assemble_parse(**model_outputs, abilities=abilities_of(self.model.config), **options)


class DependencyParsingPipeline(ParsingPipeline):
    """
    `pipeline("dependency-parsing", model=...)`: the dependency trees of sentences. Options as in [`parse`]:
    `structure`, `decoder`, `k`, `beam_size`, `rounds`, `marginals`, `punctuation`, `word_tokenizer`, `treebank`,
    `max_words`, `skip_long`, `skip_empty`.
    """

    structure = "dependency"


class ConstituencyParsingPipeline(ParsingPipeline):
    """
    `pipeline("constituency-parsing", model=...)`: the constituency trees of sentences. Options as in
    [`DependencyParsingPipeline`].
    """

    structure = "constituency"


class GraphParsingPipeline(ParsingPipeline):
    """
    `pipeline("graph-parsing", model=...)`: the dependency graphs of sentences. Options as in [`parse`]: `k`,
    `beam_size`, `marginals`, `word_tokenizer`, `max_words`, `skip_long`, `skip_empty`.
    """

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
