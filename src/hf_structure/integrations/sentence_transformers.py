"""Encoders for sentence-transformers: the vector of a sentence is the mean over its words."""

import json
from pathlib import Path

from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig

from hf_structure.hub.locating import resolve_model
from hf_structure.parsing.loading import read_config
from hf_structure.text.pre_tokenization import prepare_for_pipelines

MODULES = (
    ("", "sentence_transformers.base.modules.transformer.Transformer"),
    ("1_Pooling", "sentence_transformers.sentence_transformer.modules.pooling.Pooling"),
)


def check_encoder(model: str | Path) -> PreTrainedConfig:
    """Returns the configuration of a model by name or folder. Raises `ValueError` if it is no encoder."""
    config = read_config(Path(resolve_model(model)), "model")
    is_causal = type(config) in AutoModelForCausalLM._model_mapping
    if is_causal or type(config) not in AutoModel._model_mapping:
        raise ValueError(f"{config.model_type} is no encoder, whose vectors sentence-transformers could use")
    return config


def write_modules(folder: str | Path) -> None:
    """
    Writes `modules.json` and the configurations it names to the folder of a saved or exported encoder, and lets its
    tokenizer split raw text into words. Raises `ValueError` for a model that is no encoder.
    """
    folder = Path(folder)
    config = check_encoder(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    prepare_for_pipelines(tokenizer)
    # Encoders read no token types, which some tokenizers return by default.
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    tokenizer.save_pretrained(folder)
    modules = [{"idx": i, "name": str(i), "path": path, "type": name} for i, (path, name) in enumerate(MODULES)]
    files = {
        "modules.json": modules,
        "sentence_bert_config.json": {"transformer_task": "feature-extraction"},
        "config_sentence_transformers.json": {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"},
        "1_Pooling/config.json": {"embedding_dimension": config.hidden_size, "pooling_mode": "mean"},
    }
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
