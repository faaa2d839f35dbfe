"""
Words per second of all that happens to the words of a large corpus before and while a model is trained on them.

    python benchmarks/text.py train-web.txt.xz --config examples/configs/udgn-en.json

Each line is one process on one thread, and the clock is that of the process (`--clock wall` for the other), so that
other work on the machine hardly counts:
  rules          raw text to words (examples/prepare_text.py)
  reading        lines of words to the first memory-mapped file
  vocabulary     counting the words of that file
  encoding       ids of the words, to the second memory-mapped file
  streaming      lines of words to batches, with --streaming: reading, ids, sorting
  training       steps of the model of --config, on batches spread over the text
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import datasets
import torch
from measuring import add_machine_options, fastest, machine, training_step
from transformers import AutoModelForMaskedLM, TrainingArguments

from hf_structure import MaskedWordCollator, train_word_tokenizer
from hf_structure.corpora.batching import TokenBudgetBatchSampler
from hf_structure.corpora.corpus import column_numbers
from hf_structure.text.documents import read_documents
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import encode
from hf_structure.text.words import tokenize_words, write_blocks
from hf_structure.training.arguments import DataArguments
from hf_structure.training.corpora import NUMBER, NUMBERS, STRINGS, Corpora, Reading, words_of
from hf_structure.training.scripts import new_config
from hf_structure.training.streaming import TextStream, file_records


def encode_sentences(sentences: list[dict], tokenizer) -> list[dict]:
    rows = [encode(sentence["words"], tokenizer) for sentence in sentences]
    return [{**row, "length": len(row["input_ids"])} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="raw text, a sentence a line")
    parser.add_argument("--config", required=True, help="configuration of run_mlm.py")
    parser.add_argument("--num_sentences", type=int, default=20_000, help="sentences from the beginning of the text")
    parser.add_argument("--num_batches", type=int, default=8, help="training steps that are measured")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    content = json.loads(Path(options.config).read_text())
    lines = (line for document in read_documents(options.text) for line in document)
    raw = list(islice(lines, options.num_sentences))
    words = sum(map(len, map(tokenize_words, raw)))
    print(f"{machine(options)}; {len(raw):,} sentences, {words:,} words")

    def report(name: str, count: int, work: Callable[[], object]) -> object:
        results = []
        seconds = fastest([lambda: results.append(work())], 1, options.clock)[0]
        print(f"{name:12} {count / seconds:10,.0f} words a second", flush=True)
        return results[0]

    with TemporaryDirectory() as folder:
        datasets.config.HF_DATASETS_CACHE = Path(folder, "cache")
        datasets.disable_progress_bars()
        file = str(Path(folder, "words.txt"))
        sentences = report("rules", words, lambda: [tokenize_words(line) for line in raw])
        write_blocks((f"{' '.join(each)}\n" for each in sentences), file)
        measure_text(file, words, content, options.num_batches, report)


def measure_text(file: str, words: int, content: dict, num_batches: int, report: Callable) -> None:
    """All but the first line."""
    settings = dict(content["model"])
    run = content["options"]
    reading = Reading(load_sentences, {"words": STRINGS})
    training_args = TrainingArguments(output_dir=str(Path(file).parent), use_cpu=True, report_to="none")
    corpora = Corpora(DataArguments(), training_args)
    features = {"input_ids": NUMBERS, "length": NUMBER}
    dataset = report("reading", words, lambda: corpora.read([file], reading))
    size = {"vocab_size": run.get("vocab_size")}
    tokenizer = report("vocabulary", words, lambda: train_word_tokenizer(words_of(dataset), **size))
    encoded = report("encoding", words, lambda: corpora.encode(dataset, encode_sentences, tokenizer, features))
    lengths = column_numbers(encoded, "length")
    collator = MaskedWordCollator.from_tokenizer(tokenizer)
    records = partial(file_records, [file], reading)
    encode_all = partial(encode_sentences, tokenizer=tokenizer)
    stream = TextStream(records, encode_all, collator, max_tokens=run["max_tokens"], buffer_size=len(lengths))

    def read_once() -> None:
        seen = 0
        batches = iter(stream)
        while seen < words:
            seen += int(next(batches)["attention_mask"].sum())

    report("streaming", words, read_once)
    lengths = lengths[lengths <= run["max_length"]]  # as many of each length as there are in training
    chosen = islice(TokenBudgetBatchSampler(lengths, run["max_tokens"]), num_batches + 1)
    first, *batches = [[{"input_ids": [3] * lengths[i]} for i in batch] for batch in chosen]
    config = new_config(settings.pop("model_type"), settings, tokenizer, special=("unk", "pad", "mask"))
    model = AutoModelForMaskedLM.from_config(config).train()
    optimizer = torch.optim.Adam(model.parameters())
    training_step(model, collator(first), optimizer)
    words = sum(len(example["input_ids"]) for batch in batches for example in batch)
    report("training", words, lambda: [training_step(model, collator(batch), optimizer) for batch in batches])


if __name__ == "__main__":
    main()
