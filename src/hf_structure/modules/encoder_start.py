"""Parsers that start from a pretrained encoder."""

from importlib import import_module
from typing import Any, ClassVar, Self

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.modules.calls import MixinBase

# Encoders with absolute positions and a layer norm after each sublayer: their layers can read graphs.
OF_BERT = ("bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
# Encoders with attention of another kind, which stay as they are: layers on top read graphs.
OF_THEIR_OWN = ("deberta", "deberta-v2", "modernbert")
MODEL_TYPES = tuple(sorted({*OF_BERT, *OF_THEIR_OWN} - {"mpnet"}))


class PretrainedEncoderMixin(MixinBase):
    """For parsers whose base model is an encoder of `graph_transformer`, or has its layers on top of another."""

    encoder_types: ClassVar[tuple[str, ...]] = MODEL_TYPES
    encoder_layers: ClassVar[int | None] = None  # by default all
    encoder_segments: ClassVar[int] = 0

    @classmethod
    def from_pretrained_encoder(
        cls,
        name_or_model: str | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        num_layers: int | None = None,
        labels: list[str] | None = None,
        **settings,
    ) -> Self:
        """
        A parser that starts from the first layers of a pretrained encoder, on its device, with other weights random.

        Args:
            name_or_model (`str` or `PreTrainedModel`): A BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT or ELECTRA
                model (for [`RNGTransformerForParsing`] also MPNet), whose layers read the graph from then on; or a
                ModernBERT, DeBERTa, DeBERTa-v2 or -v3, or an ELECTRA with narrow embeddings, under new layers that do.
            tokenizer (`PreTrainedTokenizerBase`, *optional*): Its tokenizer, which knows the start, separation and
                unknown token; by default loaded by the name.
            num_layers (`int`, *optional*): Number of the encoder's layers, the first ones: by default 6 of
                [`G2GTransformerForParsing`], else all.
            labels (`list[str]`, *optional*): The relation labels; a parser without labels if not given.
            settings: Further settings of the configuration. With layers on top, `num_hidden_layers` of them.

        Raises:
            ValueError: if the model is of another kind, has fewer layers or weights that this model cannot use, or if
                no tokenizer is known.
            ModuleNotFoundError: in exported code where this package is not installed.
        """
        # Imported by name: exported code, whose model has its weights, does not carry it.
        starting = import_module("hf_structure.modules.pretrained_encoder")
        encoder, tokenizer = starting.load_encoder(name_or_model, tokenizer, cls.encoder_types)
        if labels is not None:
            settings["id2label"] = dict(enumerate(labels))
        usual: int = cls.encoder_layers or encoder.config.num_hidden_layers
        sizes = starting.encoder_settings(encoder, tokenizer, usual if num_layers is None else num_layers)
        config = {**sizes, "labelled": labels is not None, **settings}
        config_class: Any = cls.config_class
        model: Any = cls(config_class(**config))
        model = model.to(encoder.device)
        starting.copy_encoder(model, encoder, tokenizer, cls.encoder_segments)
        return model
