# /// script
# requires-python = ">=3.11"
# dependencies = ["hf_structure[train]"]
# ///
"""
Train a dependency parser, a Graph-to-Graph Transformer, on a treebank in CoNLL-U.

    accelerate launch examples/run_parsing.py --model_type rng_transformer \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/parser

`--model_type rng_transformer` predicts all arcs at once and refines them; `g2g_transformer` (the default) builds the
tree step by step. Training reads words, heads and relation labels (`--no_labels`: no labels; `--use_tags`:
part-of-speech tags, too). Several files may be given. The vocabulary of a parser from scratch is the words of the
training trees, or with `--tokenizer_name unigram` or `bpe` subwords trained on them, or the subwords of a given
tokenizer; `--config_overrides` and `--config` (see `examples/configs`) set its sizes. To start from a pretrained
encoder, or from its first layers (`--num_layers`):

    accelerate launch examples/run_parsing.py --model_type rng_transformer --encoder bert-base-cased --bf16 \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/bert-parser

Pretrained parameters then learn at `--learning_rate`, the others at `--new_learning_rate`; from scratch all parameters
are new. Both rates rise in the first `--warmup_steps` (a share of all steps, if below 1) and then fall to zero.
`--columns upos xpos feats lemma` teaches a `rng_transformer` to tag and lemmatise, too (lemmas gain from
`--use_lexicon`), and `--config_overrides '{"num_segmentation_layers": 6}'` to find sentence boundaries, from files
with paragraphs (`# newpar`, `# newdoc`). `--treebanks`, a name for each training file, distinguishes treebanks with
different annotation; by default the parser follows the first.

A folder instead of a file stands for all treebanks in it, and in the folders below, whose files have the names of
Universal Dependencies: `--train_file ud --validation_file ud --test_file ud` trains on `de_gsd-ud-train.conllu` and
the like (compressed or not), validates on `de_gsd-ud-dev.conllu`, and tests on `de_gsd-ud-test.conllu`. Half of the
training sentences are read without the name of their treebank, so that the parser, a `rng_transformer`, also parses
sentences of an unnamed treebank or language. `--sampling_power 0.5` gives small treebanks more weight. Evaluations
print the scores of each treebank as a table.

`--model_name_or_path runs/parser` trains a trained parser further, for example on other trees; settings that leave its
weights unchanged may be new (`--config_overrides '{"num_rounds": 3}'`). `--train_only tagger` trains
some of its modules, and leaves the others as they are.

`--typed_copies lower=0.1 bare=0.2 upper=0.05` adds copies of training text as people type it: a tenth of the
sentences, and of the paragraphs for sentence boundaries, in lower case, a fifth in lower case without punctuation, a
twentieth in capitals. Their trees, constituents too, are those of the words that are left.

A `rng_transformer` can learn to refine the trees of another parser (`--initial_train_file` and so on: the same
sentences in the same order). With `--teacher runs/large`, it learns the probabilities of a larger parser in addition
to the training trees. Crossing arcs of a `g2g_transformer` need `--use_swap`. Training sentences that cannot be
learned are left out; their number and the reasons are printed.

UAS and LAS are reported after each epoch, over all words and without punctuation; the checkpoint with the best LAS is
kept. An interrupted run resumes from its last complete checkpoint when the same command is repeated. On several GPUs,
`accelerate launch` starts one process each, on a CPU `torchrun --nproc_per_node 2 ...`.

Without a training file, a trained parser is evaluated:

    python examples/run_parsing.py --model_name_or_path runs/parser --test_file test.conllu --output_dir runs/parser
"""

import logging
from collections.abc import Sequence
from typing import Any

from datasets import Dataset, concatenate_datasets
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure import ParsingCollator
from hf_structure.models.families import family_of
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.corpora import Corpora
from hf_structure.training.distillation import Teacher
from hf_structure.training.parsing.options import (
    DEFAULT_FAMILY,
    ParsingDataArguments,
    ParsingModelArguments,
    ParsingTrainingArguments,
    check_options,
    require_option,
)
from hf_structure.training.parsing.parsers import columns_of, load_model, load_tokenizer, new_parameters, train_only
from hf_structure.training.parsing.rows import predicted_columns, to_rows, without_unusable
from hf_structure.training.parsing.running_text import read_running_text
from hf_structure.training.parsing.sentences import lexicon_of, read_trees, with_constituents, with_initial_trees
from hf_structure.training.parsing.teaching import load_teacher, with_teacher
from hf_structure.training.parsing.treebank_names import are_equal, find_files, name_treebanks, treebank_settings
from hf_structure.training.parsing.typed_text import read_shares, with_typed_copies
from hf_structure.training.scripts import begin, callbacks, run, train_and_evaluate
from hf_structure.training.trainers.parsing import ParsingTrainer

logger = logging.getLogger("run_parsing")


def parse_arguments() -> tuple[ParsingModelArguments, ParsingDataArguments, ParsingTrainingArguments, dict]:
    """Command line over `--config FILE` over defaults."""
    model_args, data_args, training_args, settings = parse_command_line(
        (ParsingModelArguments, ParsingDataArguments, ParsingTrainingArguments),
        description=__doc__,
        example="[--encoder bert-base-cased]",
    )
    check_options(model_args, data_args, training_args, settings)
    model_args.model_type = settings.pop("model_type", DEFAULT_FAMILY)
    if model_args.use_swap:
        settings["use_swap"] = True
    if model_args.no_labels:
        settings["labelled"] = False
    return model_args, data_args, training_args, settings


def adapt_options(
    model: PreTrainedModel,
    treebanks: dict[str, list[str]],
    model_args: ParsingModelArguments,
    data_args: ParsingDataArguments,
    training_args: ParsingTrainingArguments,
) -> None:
    """Sets the metric and the modules that learn. Raises `ValueError` for options that do not fit the parser."""
    if "learning_rate" in training_args.given and not (model_args.encoder or model_args.model_name_or_path):
        logger.warning("--learning_rate has no effect: a parser from scratch learns at --new_learning_rate")
    learned = model.config.abilities.treebanks
    if unknown := {*data_args.treebanks} - {*learned}:
        raise ValueError(f"--treebanks: this parser does not know {', '.join(sorted(unknown))}")
    if data_args.tell_treebank and not learned:
        raise ValueError("--tell_treebank has no effect: this parser does not tell treebanks apart")
    if data_args.initial_train_file:
        require_option(family_of(model.config), "initial_train_file")
    if model_args.train_only:
        train_only(model, model_args.train_only)
    choose_metric(model, treebanks["validation"], training_args)


def choose_metric(model: PreTrainedModel, treebanks: Sequence[str], training_args: ParsingTrainingArguments) -> None:
    """Selects checkpoints by the mean over several treebanks, and by UAS if the parser has no labels."""
    if len({*treebanks}) > 1 and "metric_for_best_model" not in training_args.given:
        training_args.metric_for_best_model = f"mean_{training_args.metric_for_best_model}"
    if not model.config.labelled:
        training_args.metric_for_best_model = training_args.metric_for_best_model.replace("las", "uas")


def build_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    datasets: dict[str, Dataset],
    model_args: ParsingModelArguments,
    data_args: ParsingDataArguments,
    training_args: ParsingTrainingArguments,
    teacher: Teacher | None,
) -> ParsingTrainer:
    """Makes the trainer, with a learning rate of their own for parameters that are not pretrained."""
    return ParsingTrainer(
        model=model,
        args=training_args,
        train_dataset=datasets.get("train"),
        eval_dataset=datasets.get("validation"),
        data_collator=ParsingCollator(tokenizer.pad_token_id, predicted=tuple(predicted_columns(model.config))),
        processing_class=tokenizer,
        callbacks=callbacks(training_args) if "train" in datasets else [],
        max_tokens=data_args.max_tokens,
        sampling_power=data_args.sampling_power,
        new_parameters=new_parameters(model, model_args),
        new_learning_rate=training_args.new_learning_rate,
        teacher=teacher,
    )


def training_settings(
    files: Sequence[str],
    treebanks: Sequence[str],
    model_args: ParsingModelArguments,
    data_args: ParsingDataArguments,
) -> dict[str, Any]:
    """Settings that the training files decide: names of treebanks in a new parser, and the lexicon."""
    settings = {}
    if not model_args.model_name_or_path:
        settings |= treebank_settings(model_args.model_type, data_args, treebanks)
    if model_args.use_lexicon:
        settings |= lexicon_of(files, treebanks, columns_of(model_args), are_equal(data_args, treebanks))
    return settings


def main() -> None:
    model_args, data_args, training_args, settings = parse_arguments()
    begin(training_args)
    files = find_files(data_args)
    corpora = Corpora(data_args, training_args)
    treebanks = name_treebanks(data_args, files)
    trees = {part: read_trees(names, corpora, treebanks[part]) for part, names in files.items() if names}
    for part, sentences in trees.items():
        trees[part] = with_constituents(sentences, data_args.brackets[part], data_args.functions, corpora)
    settings = training_settings(files["train"], treebanks["train"], model_args, data_args) | settings
    tokenizer = load_tokenizer(model_args, trees.get("train"))
    model = load_model(model_args, settings, tokenizer, trees.get("train"))
    # Saved with the tokenizer, for tools that truncate by it.
    tokenizer.model_max_length = model.config.max_words
    logger.info("%d words or pieces, %d parameters", len(tokenizer), model.num_parameters())
    adapt_options(model, treebanks, model_args, data_args, training_args)
    teacher = load_teacher(model_args, model.config, training_args)

    def rows_of(part: str) -> Dataset:
        """Encodes the sentences of a part, with the teacher's inputs and running text if the parser reads them."""
        is_training = part == "train"
        sentences = with_initial_trees(trees[part], getattr(data_args, f"initial_{part}_file"), corpora)
        shares = read_shares(data_args.typed_copies) if is_training else {}
        sentences = with_typed_copies(sentences, shares, training_args.seed, corpora)
        # Training names the treebank of each sentence, and leaves long sentences out; evaluation does neither.
        options = {
            "punctuation_by": data_args.punctuation_by,
            "tell_treebank": is_training or data_args.tell_treebank,
            "max_length": data_args.max_length if is_training else None,
            "train_only": model_args.train_only if is_training else [],
        }
        parts = [to_rows(sentences, tokenizer, model.config, corpora, **options)]
        if is_training and teacher is not None:
            trust = model_args.trust_remote_code
            parts = [with_teacher(parts[0], sentences, teacher, data_args.max_length, trust, corpora)]
        if model.config.abilities.segments:
            text = read_running_text(files[part], treebanks[part], corpora, shares, training_args.seed)
            if text is not None:
                parts.append(to_rows(text, tokenizer, model.config, corpora, **options))
        return without_unusable(concatenate_datasets(parts), part)

    datasets = {part: rows_of(part) for part in trees}
    trainer = build_trainer(model, tokenizer, datasets, model_args, data_args, training_args, teacher)
    train_and_evaluate(trainer, datasets.get("test"), model_args, data_args)


if __name__ == "__main__":
    run(main, "run_parsing.py")
