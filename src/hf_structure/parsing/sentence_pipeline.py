"""A pipeline of transformers that parses single sentences. Its small code travels with exported models."""

from typing import Any

from transformers import PreTrainedTokenizerBase
from transformers.pipelines import Pipeline

from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.assembling import assemble_parse, sentences_of
from hf_structure.parsing.encoding import SentenceEncoder, skipped_errors
from hf_structure.parsing.loading import choose_tokenizer
from hf_structure.parsing.options import MAX_WORDS
from hf_structure.parsing.parser import (
    check_input,
    choose_reader,
    choose_structures,
    choose_treebank,
    decode_batch,
    decoding_options,
)
from hf_structure.text.sentences import cleaned, read_plain


class SentencePipeline(Pipeline):
    """
    Turns sentences into dictionaries of [`~hf_structure.structures.Parse`]; None for skipped sentences. A sentence is
    a string, a list of words, or a dictionary of `words` (or `text`) and, optionally, `tags` and `initial`.
    """

    structure: str  # default of the option
    tokenizer: PreTrainedTokenizerBase
    given: dict[str, Any] | None = None  # options of the constructor

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __call__(self, inputs: Any, *args, **options) -> Any:
        return [] if inputs == [] else super().__call__(inputs, *args, **options)

    def _sanitize_parameters(self, **options):
        if self.given is None:  # the constructor is the first caller
            self.given = options
        return self._parameters(**{**self.given, **options})

    def _parameters(
        self,
        structure: str | None = None,
        punctuation: str = "attach",
        word_tokenizer: Any = None,
        treebank: str | None = None,
        language: str | None = None,
        max_words: int = MAX_WORDS,
        skip_long: bool = False,
        skip_empty: bool = False,
        **decoding,
    ):
        abilities = abilities_of(self.model.config)
        name = type(self.model).__name__
        check_input(self.model, self.tokenizer, abilities)
        encode = SentenceEncoder.with_abilities(
            abilities,
            tokenizer=self.tokenizer,
            word_tokenizer=choose_tokenizer(self.tokenizer, word_tokenizer),
            punctuation=punctuation,
            max_words=max_words,
            treebank_id=choose_treebank(treebank, abilities, name),
        )
        structures = choose_structures(structure or self.structure, abilities, name)
        reader = choose_reader(self.model, treebank, language, word_tokenizer)
        return (
            {"encode": encode, "reader": reader, "skipped": skipped_errors(skip_long, skip_empty)},
            decoding_options(structures, abilities, name, **decoding),
            {"structures": structures, "punctuation": punctuation},
        )

    def preprocess(self, inputs: Any, encode: SentenceEncoder, reader: Any, skipped: tuple) -> dict[str, Any]:
        try:
            source = cleaned(read_plain(inputs))
            return {"encoded": encode(source if reader is None else reader.add_words(source))}
        except skipped:
            return {"encoded": None}

    def _forward(self, model_inputs: dict[str, Any], **decoding) -> dict[str, Any]:
        encoded = model_inputs["encoded"]  # one sentence, or with batch_size a list
        batch = encoded if isinstance(encoded, list) else [encoded]
        present = [sentence for sentence in batch if sentence is not None]
        if not present:
            return {"encoded": encoded}
        found = iter(sentences_of(decode_batch(present, self.model, **decoding)))
        decoded = [None if sentence is None else next(found) for sentence in batch]
        return {"encoded": encoded, "decoded": decoded if isinstance(encoded, list) else decoded[0]}

    def postprocess(self, model_outputs: dict[str, Any], **options) -> dict[str, Any] | None:
        if model_outputs["encoded"] is None:
            return None
        return assemble_parse(**model_outputs, abilities=abilities_of(self.model.config), **options)


class DependencySentencePipeline(SentencePipeline):
    """Dependency trees of sentences."""

    structure = "dependency"


class ConstituencySentencePipeline(SentencePipeline):
    """Constituency trees of sentences."""

    structure = "constituency"


class GraphSentencePipeline(SentencePipeline):
    """Dependency graphs of sentences."""

    structure = "graph"
