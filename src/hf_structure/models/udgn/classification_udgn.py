"""UDGN with a head that classifies sentences, pairs of sentences (section 4.5 of the UDGN paper), or words."""

from hf_structure.models.udgn.modeling_udgn import UDGNModel, UDGNPreTrainedModel
from hf_structure.modules.classification import SequenceClassification, TokenClassification


class UDGNForSequenceClassification(SequenceClassification, UDGNPreTrainedModel):
    """
    UDGN with a classifier of the mean of a sentence's word vectors, or of two sentences' means; see
    [`SequenceClassification`].
    """

    model_class = UDGNModel


class UDGNForTokenClassification(TokenClassification, UDGNPreTrainedModel):
    """UDGN with a linear map of every word's vector to `config.num_labels` classes."""

    model_class = UDGNModel
