"""The scripts that compare models: the table, and that what is done is not done again."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import load_script
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel

from hf_structure import PushdownLMConfig
from hf_structure.cli import main
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu
from hf_structure.text.formats import load_sentences
from hf_structure.text.sdp import SdpSentence, write_sdp
from hf_structure.text.tokenization import encode_subwords
from hf_structure.training.comparison import PARTS, attachment_cells, score_cells, seed_folder

PARSING = {"uas": 0.91, "las": 0.875, "uas_no_punct": 0.9, "las_no_punct": 0.86}


@pytest.fixture
def calls():
    """What the script under test has run, and with which options."""
    return []


@pytest.fixture
def compare(calls, monkeypatch, tmp_path):
    """Runs a script with fake trainings, which write results that depend on the seed."""

    def run_script(name, *options, **named):
        calls.append((name, options, named))
        named["output_dir"].mkdir(parents=True, exist_ok=True)
        results = {f"test_{name}": value + 0.01 * named["seed"] for name, value in PARSING.items()}
        (named["output_dir"] / "test_results.json").write_text(json.dumps(results))

    def compare(name, *arguments, **files):
        script = load_script(name)
        monkeypatch.setattr(script, "run_script", run_script)
        files = {part: files.get(part, f"{part}.conllu") for part in ("train", "validation", "test")}
        files = [f"--{part}_file={file}" for part, file in files.items()]
        monkeypatch.setattr("sys.argv", [f"{name}.py", *files, "--output_dir", str(tmp_path), *arguments])
        script.main()

    return compare


def folders(calls) -> list[str]:
    return [named["output_dir"].name for _, _, named in calls]


@pytest.mark.smoke
def test_every_variant_is_trained_once(compare, calls, tmp_path, capsys):
    compare("compare_g2gt", "--", "--bf16")
    assert folders(calls) == [f"{name}-seed1" for name in ("DepTr", "DepTr+H", "DepTr+CH", "G2G", "G2CLS")]
    assert all(options == ("--use_swap", "--bf16") for _, options, _ in calls)
    compare("compare_g2gt", "--", "--bf16")
    assert len(calls) == 5
    assert capsys.readouterr().out.splitlines()[-1] == "| G2CLS | from scratch | 1 | 92.0 | 88.5 | 91.0 | 87.0 |"
    (tmp_path / "G2G-seed1" / "test_results.json").unlink()
    compare("compare_g2gt")
    assert folders(calls[5:]) == ["G2G-seed1"]


def test_mean_and_sample_deviation_over_seeds(compare, calls, capsys):
    compare("compare_g2gt", "--seeds", "1", "2", "4", "--runs", "G2G")
    assert [named["seed"] for _, _, named in calls] == [1, 2, 4]
    scores = "93.3 ± 1.5 | 89.8 ± 1.5 | 92.3 ± 1.5 | 88.3 ± 1.5"
    assert capsys.readouterr().out.splitlines()[-1] == f"| G2G | from scratch | 3 | {scores} |"


def test_a_score_that_one_run_has_not_is_none_of_the_row(tmp_path):
    for name, results in {"a": {"test_uas": 0.5, "test_las": 0.5}, "b": {"test_uas": 0.6}, "none": {}}.items():
        (tmp_path / name).mkdir()
        if results:
            (tmp_path / name / "test_results.json").write_text(json.dumps(results))
    cells = attachment_cells(tmp_path / name for name in ("a", "b", "none"))
    assert cells == ["2", "55.0 ± 7.1", "-", "-", "-"]
    assert attachment_cells([tmp_path / "none"]) == []


def test_cells_of_shares_and_of_perplexities():
    runs = [{"test_perplexity": 200.0, "test_uas": 0.5}, {}, {"test_perplexity": 210.0, "test_uas": 0.52}]
    assert score_cells(runs, ["perplexity", "uas", "uf1"]) == ["2", "205.0 ± 7.1", "51.0 ± 1.4", "-"]
    assert score_cells(runs[:1], ["perplexity", "uas"]) == ["1", "200.0", "50.0"]
    assert score_cells([{}], ["perplexity"]) == []


def test_each_seed_has_a_folder():
    assert [seed_folder("runs", "udgn", seed) for seed in (1, 3)] == [Path("runs/udgn-seed1"), Path("runs/udgn-seed3")]


def test_a_seed_is_given_once(compare, calls, capsys):
    with pytest.raises(SystemExit):
        compare("compare_g2gt", "--seeds", "1", "2", "1")
    assert "--seeds: 1 2 1: each seed is given once" in capsys.readouterr().err
    assert not calls


def test_runs_from_an_encoder(compare, calls):
    compare("compare_g2gt", "--encoder", "minilm", "--runs", "G2CLS", "G2G")
    assert [named.get("encoder") for _, _, named in calls] == [None, None, "minilm", "minilm"]
    assert folders(calls)[2:] == ["G2CLS-pretrained-seed1", "G2G-pretrained-seed1"]
    assert calls[-1][2]["config_overrides"] == {}
    assert calls[-2][2]["config_overrides"] == {"use_graph_output": False, "stack_positions": "from_top"}
    from_scratch = calls[0][2]["config_overrides"]
    assert from_scratch["use_graph_output"] is False
    assert from_scratch["initializer_range"] == pytest.approx(128**-0.5)
    assert "encoder" not in calls[0][2]


def test_runs_from_an_encoder_alone(compare, calls):
    compare("compare_g2gt", "--encoder", "minilm", "--pretrained_only", "--runs", "G2CLS", "G2G")
    assert folders(calls) == ["G2CLS-pretrained-seed1", "G2G-pretrained-seed1"]


def test_from_an_encoder_alone_needs_one(compare, calls):
    with pytest.raises(ValueError, match="--pretrained_only needs an --encoder"):
        compare("compare_g2gt", "--pretrained_only")
    assert not calls


@pytest.fixture
def in_this_process(monkeypatch):
    """Scripts and commands that are run in processes of their own are run here; gives their arguments."""
    started = []

    def run(command, **options):
        started.append(command[1:])
        if command[1] == "-m":
            monkeypatch.setattr(sys, "argv", command[2:])
            main.main()
        else:
            script = load_script(Path(command[1]).stem)
            monkeypatch.setattr(sys, "argv", command[1:])
            script.main()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    return started


TINY = ["--hidden_size", "16", "--num_layers", "1", "--num_train_epochs", "1"]


def test_the_options_are_those_of_the_training_script(corpus, tmp_path, monkeypatch, in_this_process):
    files = [f"--{name}_file={corpus}/dev.conllu" for name in ("train", "validation", "test")]
    options = [f"--output_dir={tmp_path}/out", "--", "--no_labels", "--use_cpu", "--disable_tqdm", "True"]
    monkeypatch.setattr("sys.argv", ["compare_g2gt.py", *files, *TINY, "--runs", "G2G", *options])
    load_script("compare_g2gt").main()
    row = (tmp_path / "out" / "table.md").read_text().splitlines()[2].strip("| ").split(" | ")
    assert row[:3] == ["G2G", "from scratch", "1"]
    assert 0 <= float(row[3]) <= 100
    assert row[4] == "-"


# Refinement


def parse_with_label(command, file, model, output, **options):
    """Instead of parsing: a chain, whose labels say which model has made it."""
    assert command == "parse"
    sentences = read_conllu(file)
    label = f"{Path(model).parent.name}/{Path(model).name}"
    write_conllu((s.with_heads(range(len(s.words)), [label] * len(s.words)) for s in sentences), output)


@pytest.fixture
def compare_rngt(compare, monkeypatch, tmp_path):
    """Runs the script with fake trainings and parses, over treebanks of 5, 1 and 2 sentences."""
    files = {
        "train": tmp_path / "train.conllu",
        "validation": tmp_path / "dev.conllu",
        "test": tmp_path / "test.conllu",
    }
    for (part, file), count in zip(files.items(), (5, 1, 2), strict=True):
        trees = (["root", "punct"] for _ in range(count))
        words = ([f"{part}{number}", "."] for number in range(count))
        write_conllu((ConlluSentence.from_words(w, [0, 1], t) for w, t in zip(words, trees, strict=True)), file)

    def run(*arguments):
        monkeypatch.setattr("hf_structure.training.comparison.run_command", parse_with_label)
        compare("compare_rngt", *arguments, **files)

    return run


def test_refinement_with_both_losses(compare_rngt, calls):
    compare_rngt("--runs", "empty-2", "SynTr", "--encoder", "minilm", "--", "--bf16")
    names = [f"{run}-{loss}" for loss in ("cross_entropy", "tree") for run in ("empty-2", "SynTr")]
    assert folders(calls) == [f"{name}{kind}-seed1" for kind in ("", "-pretrained") for name in names]
    assert all(script.name == "run_parsing.py" and options == ("--bf16",) for script, options, _ in calls)
    settings = [named["config_overrides"] for _, _, named in calls]
    assert settings[-2:] == [
        {"use_graph_input": True, "num_rounds": 2, "arc_loss": "tree"},
        {"use_graph_input": False, "num_rounds": 1, "arc_loss": "tree"},
    ]
    assert not any(name.startswith("initial") for _, _, named in calls for name in named)


@pytest.mark.smoke
def test_all_rows(compare_rngt, calls, capsys):
    compare_rngt("--losses", "tree", "--initial_model", "models/other")
    rows = [line.strip("| ").split(" | ")[:3] for line in capsys.readouterr().out.splitlines()[2:]]
    starts = [[start, str(rounds), "tree"] for start in ("empty", "SynTr", "other") for rounds in (1, 2, 3)]
    assert rows == [["other", "0", "-"], ["none (SynTr)", "1", "tree"], *starts]
    assert len(calls) == 10 + 2  # and the two folds


def test_trees_of_syntr_are_those_of_parsers_that_have_not_seen_them(compare_rngt, calls, tmp_path):
    compare_rngt("--runs", "SynTr-3", "--losses", "tree", "--seeds", "7")
    syntr = tmp_path / "SynTr-tree-seed7"
    expected = [syntr, syntr / "fold1of2", syntr / "fold2of2", tmp_path / "SynTr-3-tree-seed7"]
    assert [named["output_dir"] for _, _, named in calls] == expected
    words = [[word for s in load_sentences(named["train_file"]) for word in s["words"][:1]] for _, _, named in calls]
    assert words[1:3] == [["train1", "train3"], ["train0", "train2", "train4"]]
    refined = {part: list(load_sentences(calls[-1][2][f"initial_{part}_file"])) for part in PARTS}
    assert [s["words"][0] for s in refined["train"]] == words[0]
    models = [s["deprels"][0].rpartition("/")[2] for s in refined["train"]]
    assert models == ["fold1of2", "fold2of2", "fold1of2", "fold2of2", "fold1of2"]
    assert all(s["deprels"][0].endswith(syntr.name) for s in refined["validation"] + refined["test"])
    compare_rngt("--runs", "SynTr-3", "SynTr", "--losses", "tree", "--seeds", "7")
    assert len(calls) == 4


def test_trees_without_jackknife(compare_rngt, calls, tmp_path):
    compare_rngt("--runs", "SynTr-1", "--losses", "tree", "--folds", "1")
    assert folders(calls) == ["SynTr-tree-seed1", "SynTr-1-tree-seed1"]
    labels = {label for s in load_sentences(calls[-1][2]["initial_train_file"]) for label in s["deprels"]}
    assert labels == {f"{tmp_path.name}/SynTr-tree-seed1"}


def test_given_trees(compare_rngt, calls, monkeypatch, tmp_path, capsys):
    """They are refined, and the table has their own scores: half the words, or all but punctuation, are right."""
    trees = [["chain", "chain"], ["root", "chain"]]
    words = [["test0", "."], ["test1", "."]]
    given = (ConlluSentence.from_words(w, [0, 1], t) for w, t in zip(words, trees, strict=True))
    write_conllu(given, tmp_path / "given.conllu")
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        Path(f"{name}.conllu").touch()
    compare_rngt(
        "--runs", "mine-2", "--losses", "tree", "--initial", f"mine=a.conllu,b.conllu,{tmp_path}/given.conllu"
    )
    assert [calls[0][2][f"initial_{part}_file"] for part in PARTS][:2] == ["a.conllu", "b.conllu"]
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows[0] == "| mine | 0 | - | - | - | 100.0 | 25.0 | 100.0 | 50.0 |"
    assert rows[1].startswith("| mine | 2 | tree | from scratch | 1 | 92.0 |")


def test_given_trees_are_looked_for_before_the_first_training(compare_rngt, calls, tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        compare_rngt("--runs", "empty-1", "mine-1", "--initial", f"mine={tmp_path}/train.conllu,none,none")
    assert not calls


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--runs", "SynTr-4"], "there is no SynTr-4, but SynTr, empty-1"),
        (["--initial_model", "runs/empty"], "must be different"),
        (["--initial", "a=1,2,3", "a=4,5,6"], "must be different"),
        (["--folds", "0"], "--folds must be at least 1"),
    ],
    ids=["no_such_run", "name_of_ours", "name_given_twice", "no_folds"],
)
def test_options_that_mean_nothing(compare_rngt, calls, options, message):
    with pytest.raises(ValueError, match=message):
        compare_rngt(*options)
    assert not calls


def test_trees_of_three_files(compare_rngt, capsys):
    with pytest.raises(SystemExit):
        compare_rngt("--initial", "mine=a.conllu")
    assert (
        "must be NAME=TRAIN,DEV,TEST, files with commas between them, not 'mine=a.conllu'" in capsys.readouterr().err
    )


def test_refinement_of_trees_of_syntr(corpus, tmp_path, monkeypatch, in_this_process):
    """Trained, parsed and refined in earnest."""
    files = [f"--{name}_file={corpus}/dev.conllu" for name in PARTS]
    options = ["--runs", "SynTr", "SynTr-2", "--losses", "tree", f"--output_dir={tmp_path}/out"]
    further = ["--", "--no_labels", "--use_cpu", "--disable_tqdm", "True"]
    monkeypatch.setattr("sys.argv", ["compare_rngt.py", *files, *TINY, *options, *further])
    load_script("compare_rngt").main()
    commands = ["parse" if command[0] == "-m" else "train" for command in in_this_process]
    assert commands == ["train", "parse", "parse", "train", "parse", "train", "parse", "train"]
    rows = [line.split(" | ") for line in (tmp_path / "out" / "table.md").read_text().splitlines()[2:]]
    assert [row[0] for row in rows] == ["| none (SynTr)", "| SynTr"]
    assert all(0 <= float(row[5]) <= 100 for row in rows)


SMALL = {
    "model": {
        "model_type": "gilt",
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
        "graph_embedding_size": 4,
        "scorer_hidden_size": 8,
        "scorer_size": 4,
    },
    "options": {
        "tokenizer_type": "unigram",
        "vocab_size": 100,
        "learning_rate": 1e-3,
        "warmup_steps": 1,
        "num_train_epochs": 1,
        "max_steps": 3,
        "max_predicted_sentences": 0,
    },
}


@pytest.fixture
def compare_gilt(corpus, monkeypatch, tmp_path, in_this_process):
    """Runs `compare_gilt.py`, and the scripts that it runs, in this process; gives the options of the latter."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    files = [f"--train_file={corpus}/train.conllu", f"--test_file={corpus}/dev.conllu"]
    files += [f"--validation_file={corpus}/dev.conllu", f"--config={tmp_path}/config.json"]

    def compare(*arguments):
        in_this_process.clear()
        options = [*files, f"--output_dir={tmp_path}/out", *arguments, "--", "--use_cpu", "--disable_tqdm", "True"]
        monkeypatch.setattr(sys, "argv", ["compare_gilt.py", *options])
        load_script("compare_gilt").main()
        return in_this_process

    return compare


def value(command: list[str], name: str) -> str:
    return command[command.index(f"--{name}") + 1]


def test_gilt_and_its_baselines(compare_gilt, tmp_path, capsys):
    """Everything is trained from what it should be, scored and tested, and nothing twice."""
    pair = {"sentence_good": "the dog sees a cat .", "sentence_bad": "dog the sees a cat .", "UID": "order"}
    (tmp_path / "blimp").mkdir()
    (tmp_path / "blimp" / "order.jsonl").write_text(
        json.dumps(pair | {"field": "syntax", "linguistics_term": "order"})
    )
    options = ["--beam_size=2,1", f"--blimp={tmp_path}/blimp", "--runs", "no-depth", "gpt2", "gpt2-post", "gpt2-gilt"]
    commands = [command for command in compare_gilt(*options) if command[0].endswith("run_clm.py")]
    scratch, first, post, graft = commands
    assert value(scratch, "model_type") == "gilt"
    overrides = json.loads(value(scratch, "config_overrides"))
    assert (overrides["graph_features"], overrides["hidden_size"]) == (["degree", "distance"], 16)
    assert [value(command, "graph_layers") for command in (first, post, graft)] == ["0", "0", "1"]
    assert value(first, "base_model").endswith("gpt2-untrained-seed1")
    assert value(post, "base_model") == value(graft, "base_model") == str(tmp_path / "out" / "gpt2-seed1" / "base")
    assert [value(command, "base_learning_rate") for command in (first, post, graft)] == ["0.001", "0.0001", "0.0001"]
    assert len({value(command, "tokenizer_name") for command in commands}) == 1
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-7:]]
    assert [row[:3] for row in rows[1:]] == [
        ["no-depth", rows[1][1], "1"],
        ["no-depth", rows[1][1], "2"],
        ["gpt2", "-", "-"],
        ["gpt2-post", "-", "-"],
        ["gpt2-gilt", rows[1][1], "1"],
        ["gpt2-gilt", rows[1][1], "2"],
    ]
    assert all(row[3] == "1" for row in rows[1:])
    assert all(row[7] in ("0.0", "50.0", "100.0") for row in rows[2:5])
    assert compare_gilt(*options) == []


def test_further_training_on_other_text(compare_gilt, corpus, tmp_path, capsys):
    """The tokenizer and the first training have the text of all; what follows, and its arcs, are of the other."""
    texts = (f"{corpus}/train.conllu", f"{corpus}/dev.conllu")
    options = [
        "--beam_size=1",
        f"--post_train_file={texts[1]}",
        "--post_epochs=1",
        "--runs",
        "trees",
        "gpt2",
        "gpt2-gilt",
    ]
    commands = compare_gilt(*options)
    assert [value(command, "train_file") for command in commands] == [texts[0], texts[0], texts[1]]
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-3:]]
    for row, text in zip(rows[::2], texts, strict=True):
        sizes = [len(sentence["words"]) for sentence in load_sentences(text)]
        assert row[1] == f"{sum(sizes) / len(sizes):.1f}"
    assert rows[0][1] != rows[2][1]


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("--post_train_file=none", FileNotFoundError),
        ("--graphs=own=none,none,none", FileNotFoundError),
        ("--suites=none", FileNotFoundError),
        ("--blimp=./none", ValueError),
    ],
)
def test_all_files_are_looked_for_before_the_first_training(compare_gilt, in_this_process, option, error):
    with pytest.raises(error, match="none"):
        compare_gilt("--beam_size=1", option)
    assert not in_this_process


@pytest.fixture
def formalisms(corpus, tmp_path) -> list[str]:
    """DM: a chain; PSD: the first word is the head of all others. `--graphs` of the sentences of the corpus."""
    arcs = {
        "DM": lambda size: [(word, word + 1, "x") for word in range(1, size)],
        "PSD": lambda size: [(1, word, "x") for word in range(2, size + 1)],
    }
    options = ["--graphs"]
    for name, arcs_of in arcs.items():
        for part in ("train", "dev"):
            words = [sentence["words"] for sentence in load_sentences(corpus / f"{part}.conllu")]
            rows = (
                SdpSentence(str(number), forms, forms, forms, [1], ["_"] * len(forms), arcs_of(len(forms)))
                for number, forms in enumerate(words, start=1)
            )
            write_sdp(rows, tmp_path / f"{name}-{part}.sdp")
        train, dev = (f"{tmp_path}/{name}-{part}.sdp" for part in ("train", "dev"))
        options.append(f"{name}={train},{dev},{dev}")
    return options


def test_rows_have_the_names_of_their_formalisms(compare_gilt, formalisms, corpus, tmp_path, capsys):
    """Each is a GiLT on its own graphs; the text, the tokenizer and what is scored are those of all."""
    brackets = f"pushdown={corpus}/train.mrg,{corpus}/dev.mrg,{corpus}/dev.mrg"
    options = [*formalisms, brackets, brackets.replace("pushdown", "tg"), "--beam_size=2"]
    options += ["--runs", "trees", "DM", "PSD", "pushdown", "tg", "dtg"]
    trees, dm, psd, pushdown, tg, dtg = compare_gilt(*options)
    assert value(trees, "train_file") == f"{corpus}/train.conllu"
    for command, name in ((dm, "DM"), (psd, "PSD")):
        assert value(command, "model_type") == "gilt"
        assert value(command, "train_file") == str(tmp_path / f"{name}-train.sdp")
        assert value(command, "test_file") == str(tmp_path / f"{name}-dev.sdp")
        assert value(command, "output_dir") == str(tmp_path / "out" / f"{name}-seed1")
    assert (value(pushdown, "model_type"), value(pushdown, "train_file")) == ("pushdown", f"{corpus}/train.mrg")
    for command, formalism, file in ((tg, "constituency", "train.mrg"), (dtg, "dependency", "train.conllu")):
        assert value(command, "model_type") == "transformer_grammar"
        assert (value(command, "formalism"), value(command, "composition")) == (formalism, "compose")
        assert value(command, "train_file") == f"{corpus}/{file}"
    assert len({value(command, "tokenizer_name") for command in (trees, dm, psd, pushdown, tg, dtg)}) == 1
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-6:]]
    sentences = [sentence["words"] for sentence in load_sentences(corpus / "train.conllu")]
    arcs = f"{sum(map(len, sentences)) / len(sentences):.1f}"  # every word has one head, the root's included
    assert [row[:3] for row in rows] == [[name, arcs, "2"] for name in ("trees", "DM", "PSD")] + [
        [name, "-", "2"] for name in ("pushdown", "tg", "dtg")
    ]
    assert compare_gilt(*options) == []


def test_brackets_beside_binary_trees(compare_gilt, corpus, capsys):
    files = [f"{corpus}/{part}.mrg" for part in ("train", "dev", "dev")]
    names = ["tg", "tg-brackets", "tg-brackets-shuffled", "pushdown-brackets"]
    options = ["--brackets", ",".join(files), "--beam_size=1", "--runs", *names]
    binary, *bracketed = compare_gilt(*options)
    assert value(binary, "train_file") == f"{corpus}/train.conllu"
    for command in bracketed:
        assert [value(command, f"{part}_file") for part in ("train", "validation", "test")] == files
    models = [value(command, "model_type") for command in bracketed]
    assert models == ["transformer_grammar", "transformer_grammar", "pushdown"]
    rows = [line.strip("| ").split(" | ")[0] for line in capsys.readouterr().out.splitlines()[-4:]]
    assert rows == names


def test_runs_on_brackets_need_brackets(compare_gilt, in_this_process):
    with pytest.raises(ValueError, match="tg-brackets need the files of --brackets"):
        compare_gilt("--runs", "tg-brackets")
    assert not in_this_process


def test_controls_follow_the_runs_that_read_trees(compare_gilt, corpus, tmp_path, capsys):
    brackets = f"tg={corpus}/train.mrg,{corpus}/dev.mrg,{corpus}/dev.mrg"
    options = ["--graphs", brackets, "--beam_size=1", "--runs", "transformer-xl", "tg", "--trees", "gold", "shuffled"]
    words, gold, shuffled = compare_gilt(*options)
    assert value(shuffled, "trees") == "shuffled"
    assert "--trees" not in gold
    assert "--trees" not in words
    assert value(shuffled, "train_file") == value(gold, "train_file") == f"{corpus}/train.mrg"
    assert value(shuffled, "output_dir") == str(tmp_path / "out" / "tg-shuffled-seed1")
    rows = [line.strip("| ").split(" | ")[0] for line in capsys.readouterr().out.splitlines()[-3:]]
    assert rows == ["transformer-xl", "tg", "tg-shuffled"]


def test_fitted_models_and_their_control(compare_gilt, tmp_path, capsys):
    """Each trains a few steps, with a share of the states that is a whole head."""
    commands = compare_gilt("--runs", "treereg", "planting", "--trees", "gold", "shuffled")
    fitted, shuffled, planted = commands
    assert value(fitted, "tree_loss") == value(shuffled, "tree_loss") == "treereg"
    assert value(fitted, "tree_fraction") == value(shuffled, "tree_fraction") == "0.5"
    assert value(shuffled, "trees") == "shuffled"
    assert "--trees" not in [*fitted, *planted]
    assert value(planted, "tree_loss") == "planting"
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [row[:3] for row in rows] == [[name, "-", "-"] for name in ("treereg", "treereg-shuffled", "planting")]
    assert len({row[-3] for row in rows}) == len({row[-2] for row in rows}) == 1


@pytest.mark.smoke
def test_scores_over_costs(tmp_path):
    """Of runs that have both; the mean of their seeds."""
    script = load_script("compare_gilt")
    names = ["transformer-xl", "treereg", "treereg-shuffled", "pause-1", "planting"]
    args = SimpleNamespace(runs=names, seeds=[1, 2], output_dir=tmp_path, beam_size=[20], graphs=[], brackets=None)
    script.draw(args)
    assert not (tmp_path / "costs.svg").exists()
    ended = [*((name, 1) for name in names if name != "treereg"), ("transformer-xl", 2)]
    for name, seed in ended:
        folder = script.run_folder(name, seed, args)
        (folder / "blimp").mkdir(parents=True)
        found = {"perplexity": 100.0, "word_perplexity": 5000.0, "milliseconds": 0.5 * seed}
        if name == "planting":
            del found["milliseconds"]  # as of a run before they were measured
        (folder / "perplexity.json").write_text(json.dumps(found))
        if name != "pause-1":
            (folder / "blimp" / "results.json").write_text(json.dumps({"overall": {"paradigms": 50.0 + seed}}))
    expected = {"transformer-xl": (0.75, 51.5), "treereg-shuffled": (0.5, 51.0)}
    assert script.scores_and_costs("blimp", args) == expected
    assert script.scores_and_costs("suites", args) == {}
    script.draw(args)
    drawn = (tmp_path / "costs.svg").read_text()
    assert "BLiMP, %" in drawn
    assert "treereg-shuffled" in drawn
    assert "pause-1" not in drawn
    assert "planting" not in drawn


@pytest.mark.parametrize(
    ("graphs", "runs", "message"),
    [
        ("DM={a},{a},{a}", ["PAS"], "--runs: there is no PAS, but DM, transformer-xl"),
        ("DM={a},{a},{a} DM={b},{b},{b}", ["DM"], "--graphs: DM given twice"),
        ("DM={a},{b},{a}", ["DM"], r"train\.conllu: sentence 1 is .*, and another one in .*dev\.conllu"),
        ("DM={b},{b},{b}", ["DM"], r"dev\.conllu: sentence 1 is .*, and another one in .*train\.conllu"),
    ],
    ids=["unknown", "twice", "test", "train"],
)
def test_graphs_that_mean_nothing(compare_gilt, corpus, graphs, runs, message):
    files = {"a": f"{corpus}/train.conllu", "b": f"{corpus}/dev.conllu"}
    with pytest.raises(ValueError, match=message):
        compare_gilt("--graphs", *graphs.format(**files).split(), "--runs", *runs)


def test_shorter_files(compare_gilt, corpus, tmp_path):
    whole = (corpus / "train.conllu").read_text().split("\n\n")
    (tmp_path / "part.conllu").write_text("\n\n".join([*whole[:3], ""]))
    with pytest.raises(ValueError, match=r"part\.conllu: sentence 4 is nothing, and another one"):
        compare_gilt("--graphs", f"DM={tmp_path}/part.conllu,{corpus}/dev.conllu,{corpus}/dev.conllu", "--runs", "DM")


def test_pushdown_has_the_shape_of_gilt(tmp_path, monkeypatch):
    script = load_script("compare_gilt")
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    files = [f"--{name}_file=some.conllu" for name in ("train", "validation", "test")]
    args = script.build_parser().parse_args([f"--config={tmp_path}/config.json", "--output_dir=out", *files])
    monkeypatch.setattr(script, "base_model", lambda run, seed, args: run.base)
    scratch, graft = (script.training_options(name, 1, args) for name in ("pushdown", "gpt2-pushdown"))
    shape = {name: size for name, size in SMALL["model"].items() if not name.startswith(("graph", "scorer", "model"))}
    assert scratch["config_overrides"] == {**shape, "attachment_size": 8}
    assert scratch["model_type"] == graft["model_type"] == "pushdown"
    assert (graft["base_model"], graft["stack_layers"]) == ("gpt2", 1)
    assert graft["config_overrides"] == {"attachment_size": 8}
    assert "graph_layers" not in graft
    assert script.beams("pushdown", args) == script.beams("gpt2-pushdown", args) == [20]
    PushdownLMConfig(**scratch["config_overrides"])


@pytest.mark.smoke
def test_rows_of_gilt_over_seeds(tmp_path, monkeypatch):
    script = load_script("compare_gilt")
    monkeypatch.setattr(script, "arcs_a_sentence", lambda *_: 8.0)
    for seed, blimp in ((1, 0.5), (2, 0.6), (3, None)):
        folder = tmp_path / f"trees-seed{seed}"
        folder.mkdir()
        for beam in (1, 2):
            found = {"perplexity": 90 + seed, "word_perplexity": 200 - beam, "log_probs": [-beam, -1.0]}
            (folder / f"perplexity-{beam}.json").write_text(json.dumps(found))
        if blimp:
            (folder / "blimp").mkdir()
            (folder / "blimp" / "results.json").write_text(json.dumps({"overall": {"paradigms": blimp}}))
    files = ["--train_file", "a", "--validation_file", "b", "--test_file", "c", "--config", "d"]
    args = [*files, "--output_dir", str(tmp_path), "--beam_size", "1,2", "--runs", "trees", "gpt2"]
    two = script.build_parser().parse_args([*args, "--seeds", "1", "2"])
    assert script.rows("gpt2", two) == []
    costs = ["-", "-", "-"]  # none was measured
    first = ["trees", "8.0", "1", "2", "91.5 ± 0.7", "199.0 ± 0.0", "-", "", "", *costs]
    second = ["trees", "8.0", "2", "2", "91.5 ± 0.7", "198.0 ± 0.0", "1.0 ± 0.0", "55.0 ± 7.1", "-", *costs]
    assert script.rows("trees", two) == [first, second]
    three = script.build_parser().parse_args([*args, "--seeds", "1", "2", "3", "4"])
    assert script.rows("trees", three)[1][3:8] == [  # a test of one seed is missing
        "3",
        "92.0 ± 1.0",
        "198.0 ± 0.0",
        "1.0 ± 0.0",
        "-",
    ]


def test_costs(compare_gilt, corpus, tmp_path, capsys, monkeypatch):
    """Tokens are those that a model reads with the trees of the test file; time is of scoring it."""
    compare_gilt("--beam_size=1", "--runs", "transformer-xl", "pause-2", "plm", "plm-3")
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-4:]]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "tokenizer")
    sentences = [sentence["words"] for sentence in load_sentences(corpus / "dev.conllu")]
    words = sum(map(len, sentences))
    tokens = sum(len(encode_subwords(sentence, tokenizer)["input_ids"]) for sentence in sentences)
    constituents = words - len(sentences)  # binary trees
    read = [tokens, tokens + 2 * words, tokens + 2 * constituents, tokens + 4 * constituents]
    assert [row[-3] for row in rows] == [f"{count / words:.2f}" for count in read]
    folders = [tmp_path / "out" / f"{row[0]}-seed1" for row in rows]
    models = [AutoModelForCausalLM.from_pretrained(folder) for folder in folders]
    counts = [sum(parameter.numel() for parameter in set(model.parameters())) for model in models]
    assert [row[-2] for row in rows] == [f"{count:,}" for count in counts]
    assert counts[0] < counts[1]
    script = load_script("compare_gilt")
    monkeypatch.setattr(script, "process_time", iter([2.0, 5.0]).__next__)
    args = SimpleNamespace(test_file=str(corpus / "dev.conllu"))
    assert script.score_test_file(folders[0], None, args)["milliseconds"] == pytest.approx(3000 / words)
    assert all(float(row[-1]) > 0 for row in rows)


@pytest.mark.slow  # 16 trainings
def test_the_table_of_the_help(compare_gilt, tmp_path, capsys):
    """The runs that its command names, controls too, are trained and scored."""
    (named,) = re.findall(r"--runs ([^/]*) --output_dir", load_script("compare_gilt").__doc__)
    runs = named.replace("\\", "").split()
    assert len(runs) == 16
    compare_gilt("--beam_size=1", "--runs", *runs)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-16:]]
    assert [row[0] for row in rows] == runs
    assert all(float(row[4]) > 1 for row in rows)
    tokens = {row[0]: float(row[-3]) for row in rows}
    assert tokens["transformer-xl"] < tokens["pause-1"] < tokens["pause-2"]
    assert tokens["plm-closed"] < tokens["plm"] < tokens["tg"] < tokens["plm-3"]
    assert {tokens[name] for name in ("trees", "pushdown", "treereg", "planting")} == {tokens["transformer-xl"]}


def test_all_models_of_the_paper_by_default(tmp_path, corpus):
    """Variants of baselines and grammars are trained if they are named, and nothing else is."""
    script = load_script("compare_gilt")
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    files = [f"--{name}_file={corpus}/dev.conllu" for name in ("train", "validation", "test")]
    files += [f"--config={tmp_path}/config.json", "--output_dir=out"]
    own = f"DM={corpus}/dev.conllu,{corpus}/dev.conllu,{corpus}/dev.conllu"
    args = script.build_parser().parse_args([*files, "--graphs", own, own.replace("DM", "tg")])
    script.check(args)
    tables = "transformer-xl transformer-xl-large trees enhanced pushdown plm plm-mask tg dtg arcs no-degree no-depth"
    tables += " no-distance no-degree-weights no-distance-weights gpt2 gpt2-post gpt2-gilt gpt2-pushdown"
    assert sorted(args.runs) == sorted(["DM", *tables.split()])


def test_no_half_a_model_is_gone_on_from(compare_gilt, tmp_path, monkeypatch):
    """Of a run that was killed while it wrote the model that others start from."""

    def save(model, folder):
        Path(folder).mkdir(parents=True)
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(GPT2LMHeadModel, "save_pretrained", save)
        with pytest.raises(OSError, match="killed"):
            compare_gilt("--runs", "gpt2")
    assert not (tmp_path / "out" / "gpt2-untrained-seed1").exists()
    compare_gilt("--runs", "gpt2")
    assert {path.name for path in (tmp_path / "out").glob("gpt2*")} == {"gpt2-seed1", "gpt2-untrained-seed1"}


def test_a_run_that_starts_from_another_comes_after_it(compare_gilt):
    with pytest.raises(ValueError, match="gpt2 comes before"):
        compare_gilt("--runs", "gpt2-post")


def test_a_configuration_that_is_none_of_a_model_from_scratch(compare_gilt, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"options": {"vocab_size": 100}}))
    with pytest.raises(ValueError, match="tokenizer_type, learning_rate, warmup_steps missing in 'options'"):
        compare_gilt("--runs", "trees")


# StructFormer


@pytest.fixture
def compare_structformer(calls, corpus, monkeypatch, tmp_path):
    """Runs the script with fake trainings and evaluations; the second annotation differs from the first."""
    flat = [s.with_heads([0, *[1] * (len(s.words) - 1)]) for s in read_conllu(corpus / "dev.conllu")]
    write_conllu(flat, tmp_path / "flat.conllu")

    def run_script(name, *options, **named):
        calls.append((name, options, named))
        named["output_dir"].mkdir(parents=True, exist_ok=True)
        value = 0.1 * named["seed"] if "seed" in named else 0.9 if named["test_file"].endswith("flat.conllu") else 0.5
        scores = {"test_uas": value, "test_uuas": value, "test_uas_argmax": value, "test_uuas_argmax": value}
        found = {"test_perplexity": 100 * named["seed"], "test_uf1": value} if "seed" in named else scores
        (named["output_dir"] / "test_results.json").write_text(json.dumps(found))

    def compare(*arguments):
        script = load_script("compare_structformer")
        monkeypatch.setattr(script, "run_script", run_script)
        files = [f"--{part}_file={corpus}/dev.mrg" for part in PARTS]
        monkeypatch.setattr(sys, "argv", ["x", *files, f"--output_dir={tmp_path}/out", *arguments])
        script.main()

    return compare


def test_two_annotations_in_one_table_over_seeds(compare_structformer, calls, corpus, tmp_path, capsys):
    trees = [f"stanford={corpus}/dev.conllu", f"conll={tmp_path}/flat.conllu"]
    arguments = ["--runs", "structformer-parent", "udgn", "--seeds", "1", "2", "--test_trees", *trees]
    compare_structformer(*arguments)
    names = [str(named["output_dir"].relative_to(tmp_path / "out")) for _, _, named in calls]
    folders = [f"{run}-seed{seed}" for seed in (1, 2) for run in ("structformer-parent", "udgn")]
    assert names == [f"{folder}{part}" for folder in folders for part in ("", "/trees-stanford", "/trees-conll")]
    assert calls[0][2]["config_overrides"]["relations"] == ["parent"]
    table = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert table[0][:6] == ["model", "mask rate", "seeds", "perplexity", "UF1", "UAS, stanford"]
    assert table[0][9:] == ["UAS, conll", "UUAS, conll", "UAS, argmax, conll", "UUAS, argmax, conll"]
    assert all(len(row) == len(table[0]) for row in table[2:])
    assert table[2][:4] == ["left branching, left neighbour as head", "-", "-", "-"]
    assert table[2][5] != table[2][9]
    scores = ["2", "150.0 ± 70.7", "15.0 ± 7.1", *["50.0 ± 0.0"] * 4, *["90.0 ± 0.0"] * 4]
    assert table[4] == ["structformer, parent", "0.3", *scores]
    compare_structformer(*arguments)
    assert len(calls) == 12


@pytest.mark.smoke
def test_one_annotation_needs_no_name(compare_structformer, calls, corpus, capsys):
    compare_structformer("--runs", "transformer", "--test_trees", f"{corpus}/dev.conllu")
    assert [named["output_dir"].name for _, _, named in calls] == ["transformer-seed1", "trees"]
    titles = "| model | mask rate | seeds | perplexity | UF1 | UAS | UUAS | UAS, argmax | UUAS, argmax |"
    assert capsys.readouterr().out.splitlines()[0] == titles


def test_trees_are_looked_for_before_the_first_training(compare_structformer, calls, corpus):
    with pytest.raises(FileNotFoundError, match="none"):
        compare_structformer("--runs", "transformer", "--test_trees", f"a={corpus}/dev.conllu", "b=none")
    assert not calls


# Sizes of the corpus


@pytest.fixture
def compare_sizes(calls, monkeypatch, tmp_path):
    """Runs the script with fake trainings over a corpus of 50 sentences of four words and a full stop."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"the cat{n} saw dog{n} .\n" for n in range(50)))

    for file in ("dev.conllu", "test.conllu", "test.mrg", "a.json", "a/udgn.json", "blimp/pairs.jsonl"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)

    def run_script(name, *options, **named):
        calls.append((name, options, named))
        if name.name == "run_pairs.py":
            named["output_dir"].mkdir()
            (named["output_dir"] / "results.json").write_text(json.dumps({"overall": {"paradigms": 0.625}}))
            return
        words = len(Path(named["train_file"]).read_text().split()) if "train_file" in named else 0
        results = {"test_perplexity": 1000 / max(words, 1) + named.get("seed", 0), "test_uuas": words / 1000}
        results |= {} if words else {"test_uf1": 0.4}
        named["output_dir"].mkdir(parents=True, exist_ok=True)
        (named["output_dir"] / "test_results.json").write_text(json.dumps(results))

    def compare(*arguments):
        script = load_script("compare_corpus_sizes")
        monkeypatch.setattr(script, "run_script", run_script)
        files = ["--train_file", str(corpus), "--validation_file", "dev.conllu", "--test_file", "test.conllu"]
        monkeypatch.setattr("sys.argv", ["x", *files, "--output_dir", str(tmp_path / "out"), *arguments])
        script.main()

    return compare


def test_smaller_texts_are_parts_of_larger_ones(compare_sizes, calls, tmp_path, capsys):
    arguments = ["--configs", "a/udgn.json", "--sizes", "200", "20", "--seeds", "1", "3"]
    compare_sizes(*arguments, "--", "--bf16")
    small, large = ((tmp_path / "out" / "texts" / f"{size}.txt").read_text().splitlines() for size in (20, 200))
    assert (len(small), len(large)) == (5, 50)
    assert large[:5] == small
    assert "." not in " ".join(large).split()
    assert {named["vocabulary_file"].name for _, _, named in calls} == {"200.txt"}
    assert folders(calls) == [f"udgn-{size}-seed{seed}" for seed in (1, 3) for size in (20, 200)]
    assert all(options == ("--bf16",) for _, options, _ in calls)
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows[0] == "| udgn | 20 | 2 | 52.0 ± 1.4 | - | 2.0 ± 0.0 | - | - | - | - |"
    assert rows[1] == "| udgn | 200 | 2 | 7.0 ± 1.4 | - | 20.0 ± 0.0 | - | - | - | - |"
    assert "UUAS" in (tmp_path / "out" / "curve.svg").read_text()
    compare_sizes(*arguments)
    assert len(calls) == 4


def test_constituents_are_of_a_file_of_their_own(compare_sizes, calls, capsys):
    compare_sizes("--configs", "a.json", "--sizes", "100", "--test_brackets", "test.mrg")
    assert [named["test_file"] for _, _, named in calls] == ["test.conllu", "test.mrg"]
    assert capsys.readouterr().out.splitlines()[-1] == "| a | 100 | 1 | 11.0 | - | 10.0 | - | - | 40.0 | - |"


def test_minimal_pairs_are_scored_once(compare_sizes, calls, tmp_path, capsys):
    arguments = ["--configs", "a.json", "--sizes", "100", "--blimp", "blimp", "--every", "10"]
    compare_sizes(*arguments)
    assert [(script.name, named.get("every")) for script, _, named in calls] == [
        ("run_mlm.py", None),
        ("run_pairs.py", 10),
    ]
    assert calls[1][2]["model"] == calls[0][2]["output_dir"]
    assert capsys.readouterr().out.splitlines()[-1].endswith("| 62.5 |")
    assert "BLiMP" in (tmp_path / "out" / "curve.svg").read_text()
    compare_sizes(*arguments)
    assert len(calls) == 2


@pytest.mark.parametrize(("option", "error"), [("--test_brackets", FileNotFoundError), ("--blimp", ValueError)])
def test_what_is_needed_last_is_looked_for_first(compare_sizes, calls, option, error):
    with pytest.raises(error, match="none"):
        compare_sizes("--configs", "a.json", "--sizes", "100", option, "./none")
    assert not calls


def test_a_corpus_that_is_too_small_or_another_one(compare_sizes, tmp_path):
    with pytest.raises(ValueError, match="have 200 words, but --sizes asks for 201"):
        compare_sizes("--configs", "a.json", "--sizes", "201")
    compare_sizes("--configs", "a.json", "--sizes", "100")
    with pytest.raises(ValueError, match=r"other options \(sizes differ\)"):
        compare_sizes("--configs", "a.json", "--sizes", "50")


@pytest.mark.smoke
def test_what_texts_are_made_of_is_written_before_them(compare_sizes, tmp_path, monkeypatch):
    """Or else texts of a run that was killed then might be taken for those of other files."""

    def kill(*arguments, **options):
        raise OSError("killed")

    monkeypatch.setattr("hf_structure.text.files.new_file", kill)  # the texts', not that of the options
    with pytest.raises(OSError, match="killed"):
        compare_sizes("--configs", "a.json", "--sizes", "100")
    assert json.loads((tmp_path / "out" / "texts" / "options.json").read_text())["sizes"] == [100]
