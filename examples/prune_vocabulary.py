"""
Makes a small encoder from a pretrained one: its first layers, and only the word pieces that a text needs. A trained
Graph-to-Graph Transformer parser becomes smaller in the same way, but keeps all its layers.

    python examples/prune_vocabulary.py sentence-transformers/all-MiniLM-L6-v2 --text train.conllu wiki.txt \\
        --vocab_size 10000 --num_layers 3 --output_dir runs/small-minilm
    accelerate launch examples/run_parsing.py --encoder runs/small-minilm --num_layers 3 ...

`--intermediate_size` also narrows the feed-forward layers of an encoder, to the neurons of the largest weights.

It keeps the special tokens, the pieces of one ASCII character, the pieces of one character that occur in the text, and
the most frequent other pieces: `--vocab_size` in all, or with `--coverage 0.99` as many as make up that share of the
pieces of each file, so that a small file of one language counts as much as a large one of another. A word whose piece
is removed is read as several shorter ones.

It works for the WordPiece vocabularies of BERT and its like (DistilBERT, MiniLM), and for the unigram vocabularies of
SentencePiece (XLM-RoBERTa, multilingual E5). Unigram pieces keep their scores: text of kept pieces is cut as before.
Invisible characters that no such piece has, like the zero-width non-joiner of Persian, become spaces, as they do in
XLM-RoBERTa.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, models, normalizers
from tqdm import tqdm
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TokenizersBackend,
)

from hf_structure import AutoModelForDependencyParsing, G2GTransformerConfig, RNGTransformerConfig
from hf_structure.cli.common import check_empty, run_with_options
from hf_structure.text.files import writing_to
from hf_structure.text.formats import load_sentences

CONTINUATION = "##"
INVISIBLE = "\u200b\u200c\u200e\u200f\ufeff"
PARSERS = (G2GTransformerConfig.model_type, RNGTransformerConfig.model_type)


def count_pieces(path: str, tokenizer: PreTrainedTokenizerBase) -> Counter:
    """Counts the pieces in the sentences of a text, CoNLL-U or bracket file."""
    counts = Counter()
    for sentence in tqdm(load_sentences(path), desc=path, unit=" sentences"):
        counts.update(tokenizer(sentence["words"], is_split_into_words=True, add_special_tokens=False)["input_ids"])
    return counts


def spelling(tokenizer: PreTrainedTokenizerBase, counts: Counter) -> set[int]:
    """Returns the ids of the special tokens, and of the characters that spell words whose pieces are removed."""
    needed = set(tokenizer.all_special_ids)
    is_unigram = isinstance(tokenizer.backend_tokenizer.model, models.Unigram)
    letters = set("".join(tokenizer.convert_ids_to_tokens(list(counts)))) if is_unigram else ()
    for piece, number in tokenizer.get_vocab().items():
        letter = piece.removeprefix(CONTINUATION)
        if len(letter) == 1 and (letter.isascii() or counts[number] or letter in letters):
            needed.add(number)
    return needed


def ranked(counts: Counter) -> list[int]:
    """Sorts ids by frequency, the most frequent first."""
    return sorted(counts, key=lambda number: (-counts[number], number))


def choose_pieces(tokenizer: PreTrainedTokenizerBase, counts: Counter, vocab_size: int) -> list[int]:
    """
    Returns the ids of at most `vocab_size` pieces to keep, in their old order. Raises `ValueError` if special tokens
    and single characters alone are more.
    """
    needed = spelling(tokenizer, counts)
    if len(needed) > vocab_size:
        raise ValueError(f"--vocab_size {vocab_size} is too small: {len(needed)} pieces are needed for spelling alone")
    others = [number for number in ranked(counts) if number not in needed]
    return sorted(needed | set(others[: vocab_size - len(needed)]))


def covering_pieces(tokenizer: PreTrainedTokenizerBase, counts: Sequence[Counter], coverage: float) -> list[int]:
    """Returns the ids of the pieces that cover a share of each text, in their old order."""
    kept = spelling(tokenizer, sum(counts, Counter()))
    for text in counts:
        # Counted for each file: a large file must not use up the pieces of a small one.
        missing = coverage * text.total()
        for number in ranked(text):
            if missing <= 0:
                break
            kept.add(number)
            missing -= text[number]
    return sorted(kept)


def renumber_pieces(model: dict, new_ids: dict[int, int]) -> None:
    """Keeps the pieces of a tokenizer's model, in JSON, that have new ids; these are in the order of the old ones."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        # A unigram vocabulary lists pieces with their scores, without special tokens that were added later.
        model["vocab"] = [vocabulary[old] for old in new_ids if old < len(vocabulary)]
        model["unk_id"] = new_ids.get(model["unk_id"])
    else:
        model["vocab"] = {piece: new_ids[old] for piece, old in vocabulary.items() if old in new_ids}


def renumber_tokens(state: dict, new_ids: dict[int, int]) -> None:
    """Renumbers the special tokens of a tokenizer, in JSON, and the tokens that it adds to each text."""
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] in new_ids]
    for token in state["added_tokens"]:
        token["id"] = new_ids[token["id"]]
    for token in ((state["post_processor"] or {}).get("special_tokens") or {}).values():
        token["ids"] = [new_ids[old] for old in token["ids"]]


def prune_tokenizer(tokenizer: PreTrainedTokenizerBase, kept: list[int]) -> TokenizersBackend:
    """Copies a tokenizer with the given ids only, renumbered in their order."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    new_ids = {old: new for new, old in enumerate(kept)}
    renumber_pieces(state["model"], new_ids)
    renumber_tokens(state, new_ids)
    backend = Tokenizer.from_str(json.dumps(state))
    backend.no_truncation()
    backend.no_padding()
    # WordPiece tokenizers of BERT remove these characters themselves.
    if isinstance(backend.model, models.Unigram):
        read_invisible(backend)
    return TokenizersBackend(tokenizer_object=backend, **tokenizer.special_tokens_map)


def read_invisible(backend: Tokenizer) -> None:
    """Makes the tokenizer replace invisible characters by spaces if it has no piece for them."""
    normalize = backend.normalizer.normalize_str if backend.normalizer else str
    unknown = [letter for letter in INVISIBLE if normalize(letter) == letter and backend.token_to_id(letter) is None]
    if unknown:
        steps = [normalizers.Replace(Regex(f"[{''.join(unknown)}]"), " "), backend.normalizer]
        backend.normalizer = normalizers.Sequence([step for step in steps if step])


def prune_model(model: PreTrainedModel, kept: list[int], num_layers: int) -> PreTrainedModel:
    """Keeps the first layers and the given embeddings of a model, in place. `ValueError`: too many layers."""
    if not 1 <= num_layers <= model.config.num_hidden_layers:
        raise ValueError(f"--num_layers {num_layers}: the encoder has {model.config.num_hidden_layers} layers")
    # Copied first: resizing keeps the first rows, not the chosen ones.
    weight = model.get_input_embeddings().weight.detach()[kept]
    ids = {name: getattr(model.config, name, None) for name in ("pad_token_id", "unk_token_id")}
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.data.copy_(weight)
    for name, old in ids.items():
        if old is not None:
            setattr(model.config, name, kept.index(old))
    if num_layers < model.config.num_hidden_layers:
        layers = getattr(model, "encoder", None) or model.transformer
        layers.layer = layers.layer[:num_layers]
        model.config.num_hidden_layers = num_layers
    return model


def narrow_layers(model: PreTrainedModel, size: int) -> PreTrainedModel:
    """
    Keeps `size` neurons in each feed-forward layer of an encoder, in place: the neurons with the largest product of
    the norms of their input and output weights. Raises `ValueError` if the encoder has no more than that.
    """
    name = "hidden_dim" if model.config.model_type == "distilbert" else "intermediate_size"
    if not 1 <= size < getattr(model.config, name):
        raise ValueError(f"--intermediate_size {size}: the encoder has {getattr(model.config, name)} neurons a layer")
    for layer in (getattr(model, "encoder", None) or model.transformer).layer:
        inward, outward = (
            (layer.ffn.lin1, layer.ffn.lin2)
            if name == "hidden_dim"
            else (layer.intermediate.dense, layer.output.dense)
        )
        # Neurons are sorted by index, so that their order does not change.
        chosen = (inward.weight.norm(dim=1) * outward.weight.norm(dim=0)).topk(size).indices.sort().values
        inward.weight.data = inward.weight.data[chosen]
        inward.bias.data = inward.bias.data[chosen]
        outward.weight.data = outward.weight.data[:, chosen].contiguous()
        inward.out_features = outward.in_features = size
    setattr(model.config, name, size)
    return model


def load_pruned(args: argparse.Namespace, kept: list[int]) -> PreTrainedModel:
    """Loads the encoder or parser and prunes it. Raises `ValueError` for options of layers with a parser."""
    is_parser = AutoConfig.from_pretrained(args.encoder, trust_remote_code=False).model_type in PARSERS
    if is_parser and (args.num_layers or args.intermediate_size):
        raise ValueError("--num_layers and --intermediate_size: a trained parser needs its layers as they are")
    auto_class = AutoModelForDependencyParsing if is_parser else AutoModel
    model = auto_class.from_pretrained(args.encoder, trust_remote_code=False)
    model = prune_model(model, kept, args.num_layers or model.config.num_hidden_layers)
    return narrow_layers(model, args.intermediate_size) if args.intermediate_size else model


def prune(args: argparse.Namespace) -> None:
    check_empty(args.output_dir)
    if args.coverage is not None and not 0 < args.coverage <= 1:
        raise ValueError(f"--coverage {args.coverage}: a share of the text is needed, above 0 and at most 1")
    tokenizer = AutoTokenizer.from_pretrained(args.encoder, trust_remote_code=False)
    if not isinstance(getattr(tokenizer.backend_tokenizer, "model", None), models.WordPiece | models.Unigram):
        raise ValueError(f"{args.encoder} has no WordPiece or unigram vocabulary")
    texts = [count_pieces(path, tokenizer) for path in args.text]
    counts = sum(texts, Counter())
    if not counts:
        raise ValueError(f"{', '.join(args.text)}: no words")
    if args.coverage is None:
        kept = choose_pieces(tokenizer, counts, args.vocab_size)
    else:
        kept = covering_pieces(tokenizer, texts, args.coverage)
    model = load_pruned(args, kept)
    with writing_to(args.output_dir):
        prune_tokenizer(tokenizer, kept).save_pretrained(args.output_dir)
        model.save_pretrained(args.output_dir)
    # By occurrences in the text, not by pieces.
    share = sum(counts[number] for number in kept) / counts.total()
    print(
        f"{args.output_dir}: {len(kept):,} of {len(tokenizer):,} pieces, {share:.2%} of the text's; "
        f"{model.num_parameters():,} parameters"
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", help="the encoder to start from: folder or Hub name")
    parser.add_argument("--text", nargs="+", required=True, metavar="FILE", help="text, CoNLL-U or bracket files")
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--vocab_size", type=int, help="maximum number of pieces")
    size.add_argument("--coverage", type=float, metavar="SHARE", help="share of each file that the pieces cover")
    parser.add_argument("--num_layers", type=int, help="number of layers, from the first; default: all")
    parser.add_argument("--intermediate_size", type=int, help="width of the feed-forward layers; default: as it is")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="folder for the encoder and tokenizer")
    run_with_options(parser, prune, arguments)


if __name__ == "__main__":
    main()
