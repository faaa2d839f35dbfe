"""UDGN with a head that classifies sentences, pairs of sentences (section 4.5 of the UDGN paper), or words."""

from typing import cast

from torch import nn

from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNModel, UDGNPreTrainedModel
from hf_structure.modules.classification import SentenceClassifier, SequenceClassification, TokenClassification
from hf_structure.modules.dropout import Dropout


class UDGNForSequenceClassification(SequenceClassification, UDGNPreTrainedModel):
    """
    UDGN with a classifier of the mean of a sentence's word vectors, or of two sentences' means.

    `config.num_labels` and `config.problem_type` say what it gives: with one label it is a regression;
    `config.pair_features`, whether it reads pairs. Loaded from a [`UDGNForMaskedLM`], it begins with a random
    classifier and leaves out what predicts words.
    """

    def __init__(self, config: UDGNConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.udgn = UDGNModel(config)
        self.classifier = SentenceClassifier(config)
        self.post_init()


class UDGNForTokenClassification(TokenClassification, UDGNPreTrainedModel):
    """UDGN with a linear map of every word's vector to `config.num_labels` classes."""

    def __init__(self, config: UDGNConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.udgn = UDGNModel(config)
        self.dropout = Dropout(config.hidden_dropout)
        self.classifier = nn.Linear(config.hidden_size, cast(int, config.num_labels))
        self.post_init()
