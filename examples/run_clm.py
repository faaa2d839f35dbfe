"""
Train a causal language model that reads dependency graphs and predicts them, on annotated text.

    accelerate launch examples/run_clm.py --model_type gilt \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/gilt

`--model_type` is `gilt`, or a baseline without graphs: `transformer-xl` (the same backbone) or `transformer-xl-large`
(as many layers as give it at least GiLT's parameters). With `--base_model gpt2` graphs are grafted on a pretrained
model instead (GPT-2, Llama, Qwen2 or Qwen3), on its last `--graph_layers`; with 0 of them it is only trained further.
Graphs are the trees of CoNLL-U files (`--annotation enhanced`: their enhanced graphs) or those of SDP 2015 files, by
the suffix; baselines take any text. A new model gets a tokenizer of subwords trained on its training text.

Evaluation says in the name of each number which graphs the model was given: `perplexity_gold_graphs` is no perplexity
of a text alone, as the annotated graphs tell of it; `perplexity_predicted_graphs` is one, with the graphs that the
model builds while it reads.

The defaults are the optimiser and schedule of the paper; `--config` takes a file with the sizes and settings of a
model (see `examples/configs`), which further options override. A run that was stopped goes on from its last complete
checkpoint when the same command is given again. On several GPUs `accelerate launch` starts a process each; `torchrun
--nproc_per_node 2 examples/run_clm.py ...` starts two on a CPU.

Without a training file a trained model is evaluated:

    python examples/run_clm.py --model_name_or_path runs/gilt --test_file test.conllu --output_dir runs/gilt
"""

import json
import logging
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

import hf_structure
from hf_structure import GiLTConfig, GiLTForCausalLM, GraphCollator
from hf_structure.data.corpus import load_sentences
from hf_structure.data.graph_batches import add_tapes
from hf_structure.data.graphs import ANNOTATIONS, load_graphs
from hf_structure.data.text import WORD_TOKENIZERS
from hf_structure.pipelines.loading import load_weights, longest_input, read_config, read_tokenizer
from hf_structure.tokenization import encode_subwords, train_subword_tokenizer
from hf_structure.training.scripts import (
    DataArguments,
    ModelArguments,
    RunArguments,
    begin,
    callbacks,
    check_lengths,
    check_settings,
    new_config,
    parse_command_line,
    read_files,
    run,
    train_and_evaluate,
    without_long,
)
from hf_structure.training.trainers import GraphLMTrainer

logger = logging.getLogger("run_clm")

FAMILIES = ("gilt", "transformer-xl", "transformer-xl-large")
PURPOSE = "causal language model"


@dataclass
class CLMModelArguments(ModelArguments):
    """What is trained."""

    base_model: str | None = field(
        default=None, metadata={"help": "Pretrained language model to graft graphs on (folder or Hub name)."}
    )
    graph_layers: int | None = field(
        default=None, metadata={"help": "How many layers, the last ones, read graphs; by default all, 0 for none."}
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer (folder or Hub name), by default that of the base model, if any."}
    )
    tokenizer_type: str = field(
        default="unigram",
        metadata={"help": "Tokenizer trained on the text if there is no other.", "choices": ["unigram", "bpe"]},
    )
    vocab_size: int = field(default=8000, metadata={"help": "Size of its vocabulary."})
    word_tokenizer: str = field(
        default="english",
        metadata={"help": "What splits raw text into words like those of the data.", "choices": list(WORD_TOKENIZERS)},
    )


@dataclass
class CLMDataArguments(DataArguments):
    """What it is trained on."""

    annotation: str = field(
        default="basic",
        metadata={"help": "Graphs of CoNLL-U files: trees or enhanced graphs.", "choices": list(ANNOTATIONS)},
    )
    cache_tapes: bool = field(
        default=True,
        metadata={"help": "Compute what is read from graphs once and keep it (3 bytes a pair of words)."},
    )
    max_predicted_sentences: int = field(
        default=200, metadata={"help": "Sentences, spread over the text, that evaluation predicts graphs of."}
    )


@dataclass
class CLMTrainingArguments(RunArguments):
    """`TrainingArguments` with the defaults of the GiLT paper."""

    learning_rate: float = field(default=1.5e-4, metadata={"help": "Highest learning rate of AdamW."})
    base_learning_rate: float = field(
        default=3e-5, metadata={"help": "The same for the parameters of a pretrained model."}
    )
    lm_only_steps: int = field(
        default=0, metadata={"help": "First steps in which the dependency scorer is not trained."}
    )
    weight_decay: float = field(default=0.0, metadata={"help": "Weight decay of AdamW."})
    max_grad_norm: float = field(default=3.0, metadata={"help": "Bound of the gradient's norm."})
    num_train_epochs: float = field(default=4, metadata={"help": "Number of passes over the training text."})
    lr_scheduler_type: str = field(default="cosine", metadata={"help": "Schedule of the learning rates."})


def parse_arguments() -> tuple[CLMModelArguments, CLMDataArguments, CLMTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    *parsed, settings = parse_command_line(
        (CLMModelArguments, CLMDataArguments, CLMTrainingArguments),
        description=__doc__,
        example="[--model_type gilt | --base_model gpt2]",
    )
    model_args = parsed[0]
    if model_args.base_model and settings.pop("model_type", "gilt") != "gilt":
        raise ValueError("--base_model is grafted on: it has no other --model_type than gilt")
    if model_args.graph_layers is not None:
        settings["graph_layers"] = model_args.graph_layers
    return *parsed, settings


def reads_graphs(args: CLMModelArguments, settings: dict) -> bool:
    """Whether the model that is asked for does."""
    if args.model_name_or_path:
        config = read_config(hf_structure.resolve_model(args.model_name_or_path), PURPOSE)
        return getattr(config, "graph_layers", 0) > 0
    return settings.get("model_type", "gilt") == "gilt" and settings.get("graph_layers") != 0


def load_text(files: list[str], args: CLMDataArguments, has_graphs: bool) -> list[dict]:
    """Sentences of all files, with `arcs` if the model reads graphs."""
    return read_files(files, partial(load_graphs, annotation=args.annotation) if has_graphs else load_sentences)


def load_tokenizer(
    model_args: CLMModelArguments, args: CLMTrainingArguments, sentences: list[dict]
) -> PreTrainedTokenizerBase:
    """The trained or base model's tokenizer, a given one, or a new one."""
    name = model_args.tokenizer_name or model_args.base_model
    if model_args.model_name_or_path:
        name = hf_structure.resolve_model(model_args.model_name_or_path)
    if not name:
        with args.main_process_first(local=False):
            name = train_tokenizer(model_args, args.output_dir, [sentence["words"] for sentence in sentences])
    tokenizer = read_tokenizer(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.bos_token
    if not model_args.model_name_or_path:
        tokenizer.init_kwargs["word_tokenizer"] = model_args.word_tokenizer
    return tokenizer


def train_tokenizer(args: CLMModelArguments, output_dir: str, sentences: list[list[str]]) -> str:
    """
    Folder of a tokenizer of these sentences, trained only if it is not there yet: what training gives is not always
    the same, but all processes of a run, and the run that goes on, need the same.
    """
    text = zlib.crc32(json.dumps(sentences).encode())
    folder = Path(output_dir, f"tokenizer-{args.tokenizer_type}-{args.vocab_size}-{text:08x}")
    if not folder.exists():
        tokenizer = train_subword_tokenizer(sentences, vocab_size=args.vocab_size, kind=args.tokenizer_type)
        tokenizer.save_pretrained(f"{folder}.partial")
        Path(f"{folder}.partial").rename(folder)
    return str(folder)


def load_model(args: CLMModelArguments, settings: dict, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A trained model, a graft on one, or a new one. `ValueError` if it does not know all tokens."""
    if args.model_name_or_path:
        folder = hf_structure.resolve_model(args.model_name_or_path)
        model = load_weights(folder, AutoModelForCausalLM, PURPOSE)
    elif args.base_model:
        model = graft(args.base_model, settings)
    else:
        model = new_model(settings, tokenizer)
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens, but the model {model.config.vocab_size}")
    return model.float()  # the weights; --bf16 computes in half precision


def graft(base_model: str, settings: dict) -> GiLTForCausalLM:
    """A pretrained language model with graphs in its last layers."""
    check_settings("gilt", settings)
    try:
        return GiLTForCausalLM.from_pretrained_lm(base_model, **settings)
    except StrictDataclassError as error:
        raise ValueError(" ".join(str(error).split())) from error


def new_model(settings: dict, tokenizer: PreTrainedTokenizerBase) -> GiLTForCausalLM:
    """A model of one of the families."""
    settings = dict(settings)
    name = settings.pop("model_type", None)
    if not name:
        raise ValueError("--model_type, --base_model, --model_name_or_path or a --config with a model_type is needed")
    if name not in FAMILIES:
        raise ValueError(f"there is no model family {name!r}: choose one of {', '.join(FAMILIES)}")
    config = new_config("gilt", settings, tokenizer, special=("pad", "bos", "eos"))
    if name == "transformer-xl-large":
        config.num_hidden_layers = layers_to_match(config)
    if name != "gilt":
        config.graph_layers = 0
    return GiLTForCausalLM(config)


def layers_to_match(config: GiLTConfig) -> int:
    """How many layers give a model without graphs at least the parameters of this one with graphs."""

    def parameters(**changes: int) -> int:
        with torch.device("meta"):
            return GiLTForCausalLM(GiLTConfig.from_dict(config.to_dict() | changes)).num_parameters()

    layers, wanted = config.num_hidden_layers, parameters()
    while parameters(num_hidden_layers=layers, graph_layers=0) < wanted:
        layers += 1
    logger.info("%d layers instead of %d", layers, config.num_hidden_layers)
    return layers


def to_dataset(
    sentences: list[dict], tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, cache_tapes: bool
) -> Dataset:
    """Token ids and lengths; if the sentences have graphs, also these, and which word each token belongs to."""
    progress = tqdm(sentences, "tokenizing", disable=not logger.isEnabledFor(logging.INFO))
    encoded = [encode_subwords(sentence["words"], tokenizer) for sentence in progress]
    lengths = [len(sentence["input_ids"]) for sentence in encoded]
    check_lengths(lengths, longest_input(model))
    columns = {"input_ids": [sentence["input_ids"] for sentence in encoded], "length": lengths}
    columns["num_words"] = [len(sentence["words"]) for sentence in sentences]
    if "arcs" not in sentences[0]:
        return Dataset.from_dict(columns)
    columns["word_ids"] = [sentence["word_ids"] for sentence in encoded]
    columns |= {name: [sentence[name] for sentence in sentences] for name in ("arcs", "words")}
    dataset = Dataset.from_dict(columns)
    if cache_tapes:
        features = {"features": model.config.tape_features}
        dataset = dataset.map(add_tapes, batched=True, fn_kwargs=features, desc="features of graphs")
    return dataset.remove_columns("words")


def build_trainer(model, tokenizer, train, validation, data_args, training_args) -> GraphLMTrainer:
    """Trainer with the paper's learning rates."""
    features = {"features": model.config.tape_features} if hasattr(model.config, "tape_features") else {}
    return GraphLMTrainer(
        model=model,
        args=training_args,
        train_dataset=train,
        eval_dataset=validation,
        data_collator=GraphCollator(tokenizer.pad_token_id, **features),
        processing_class=tokenizer,
        callbacks=callbacks(training_args) if train is not None else [],
        max_tokens=data_args.max_tokens,
        base_learning_rate=training_args.base_learning_rate,
        lm_only_steps=training_args.lm_only_steps,
        max_predicted_sentences=data_args.max_predicted_sentences,
    )


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    has_graphs = reads_graphs(model_args, settings)
    files = (data_args.train_file, data_args.validation_file, data_args.test_file)
    texts = [load_text(names, data_args, has_graphs) if names else None for names in files]
    if texts[0]:
        texts[0] = without_long(texts[0], data_args.max_length)
    tokenizer = load_tokenizer(model_args, training_args, texts[0])
    model = load_model(model_args, settings, tokenizer)
    logger.info("%d tokens, %d parameters", len(tokenizer), model.num_parameters())
    train, validation, test = (
        to_dataset(text, tokenizer, model, data_args.cache_tapes) if text else None for text in texts
    )
    train_and_evaluate(build_trainer(model, tokenizer, train, validation, data_args, training_args), test)


if __name__ == "__main__":
    run(main, "run_clm.py")
