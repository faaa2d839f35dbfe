"""Scores of the component for spaCy, for `nlp.evaluate` and `spacy evaluate`."""

from collections.abc import Sequence
from typing import Any

from spacy.pipeline.dep_parser import parser_score
from spacy.pipeline.lemmatizer import lemmatizer_score
from spacy.pipeline.morphologizer import morphologizer_score
from spacy.pipeline.tagger import tagger_score
from spacy.training import Example

# Weights in the score of a pipeline. Columns weigh nothing, since a model need not predict them.
WEIGHTS: dict[str, float | None] = {"dep_uas": 0.5, "dep_las": 0.5, "dep_las_per_type": None}
WEIGHTS |= {"sents_p": None, "sents_r": None, "sents_f": 0.0}
WEIGHTS |= {"tag_acc": 0.0, "pos_acc": 0.0, "morph_acc": 0.0, "morph_per_feat": None, "lemma_acc": 0.0}
COLUMNS = {"TAG": tagger_score, "POS": morphologizer_score, "LEMMA": lemmatizer_score}


def score_examples(examples: Sequence[Example], **options: Any) -> dict[str, Any]:
    """
    Computes the scores of spaCy's own parser, tagger, morphologizer and lemmatizer: attachment of all words but
    punctuation, sentences, and the tags, parts of speech, features and lemmas that the scored documents have.
    """
    scores = parser_score(examples, **options)
    for name, score in COLUMNS.items():
        if any(example.predicted.has_annotation(name) for example in examples):
            scores |= score(examples, **options)
    return scores
