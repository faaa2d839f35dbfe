"""StructFormer with a head that classifies sentences, pairs of sentences (section 4.5 of the UDGN paper), or words."""

from hf_structure.models.structformer.modeling_structformer import StructFormerModel, StructFormerPreTrainedModel
from hf_structure.modules.classification import SequenceClassification, TokenClassification


class StructFormerForSequenceClassification(SequenceClassification, StructFormerPreTrainedModel):
    """
    StructFormer with a classifier of the mean of a sentence's word vectors, or of two sentences' means; see
    [`SequenceClassification`].
    """

    model_class = StructFormerModel


class StructFormerForTokenClassification(TokenClassification, StructFormerPreTrainedModel):
    """StructFormer with a linear map of every word's vector to `config.num_labels` classes."""

    model_class = StructFormerModel
