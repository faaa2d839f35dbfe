import runpy
from pathlib import Path

import pytest

from hf_structure.text.conllu import read_conllu

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "prepare_ud.py"))
SENTENCE = "1\t{}\t_\tX\tX\t_\t2\tdep\t_\t_\n2\t,\t_\tPUNCT\t,\t_\t0\tpunct\t_\t_\n\n"


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "in.conllu"
    documents = [("GUM_news_a", "A"), (None, "B"), ("GUM_fiction_b", "C"), ("GUM_bio_c-d", "D")]
    path.write_text("".join((f"# newdoc id = {d}\n" if d else "") + SENTENCE.format(word) for d, word in documents))
    return path


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


def first_words(path):
    return [sentence.forms[0] for sentence in read_conllu(path)]


@pytest.mark.parametrize(
    ("document", "genre"),
    [
        ("GUM_academic_art", "academic"),
        ("GUM_bio_c-d", "bio"),
        ("weblog-juancole.com_juancole_2003", "weblog"),
        ("email-enronsent00_01", "email"),
        ("doc1", "doc1"),
    ],
)
def test_genre_of(document, genre):
    assert EXAMPLE["genre_of"](document) == genre


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "ABCD"),
        (["--genres", "news", "bio"], "ABD"),
        (["--exclude_genres", "news"], "CD"),
        (["--genres", "news", "bio", "--exclude_genres", "bio"], "AB"),
    ],
    ids=["all", "some", "without", "both"],
)
def test_genres(treebank, tmp_path, options, words):
    run(treebank, "--output", tmp_path / "out.conllu", *options)
    assert first_words(tmp_path / "out.conllu") == list(words)


def test_everything_is_copied_byte_for_byte(treebank, tmp_path):
    run(treebank, treebank, "--output", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == treebank.read_bytes() * 2


def test_punctuation_is_dropped(treebank, tmp_path):
    run(treebank, "--output", tmp_path / "out.conllu", "--drop_punctuation")
    assert [(s.forms, s.heads) for s in read_conllu(tmp_path / "out.conllu")] == [([word], [0]) for word in "ABCD"]
    run(treebank, "--output", tmp_path / "out.txt", "--format", "text", "--drop_punctuation", "--by", "form")
    assert (tmp_path / "out.txt").read_text() == "A\nB\nC\nD\n"


def test_was_of_the_first_person(tmp_path):
    third = "Number=Sing|Person=3"
    rows = [
        ("I", "nsubj", 3, "Person=1"),
        ("was", "cop", 3, third),
        ("ill", "root", 0, "_"),
        ("and", "cc", 6, "_"),
        ("he", "nsubj", 6, "Person=3"),
        ("was", "conj", 3, third),
        ("i", "nsubj:pass", 9, "Person=1"),
        ("Was", "aux:pass", 9, third),
        ("seen", "conj", 3, "_"),
        ("I", "nsubj", 11, "Person=1"),
        ("was", "conj", 3, third),
        ("I", "nsubj", 13, "Person=1"),
        ("is", "conj", 3, third),
    ]
    lines = [
        f"{number}\t{form}\t_\tX\t_\t{feats}\t{head}\t{label}\t_\t_\n"
        for number, (form, label, head, feats) in enumerate(rows, start=1)
    ]
    (tmp_path / "in.conllu").write_text("".join(lines) + "\n")
    run(tmp_path / "in.conllu", "--output", tmp_path / "out.conllu", "--first_person")
    (mended,) = read_conllu(tmp_path / "out.conllu")
    changed = {word.id for word, (*_, feats) in zip(mended.words, rows, strict=True) if word.feats != feats}
    assert changed == {"2", "8", "11"}
    assert {mended.words[int(number) - 1].feats for number in changed} == {"Number=Sing|Person=1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--genres", "newz"], "no document of genre newz; genres found: bio, fiction, news"),
        (["--genres", "news", "--exclude_genres", "news"], "nothing is left"),
    ],
)
def test_nothing_to_write(treebank, tmp_path, capsys, options, message):
    with pytest.raises(SystemExit) as caught:
        run(treebank, "--output", tmp_path / "out.conllu", *options)
    assert caught.value.code == 1
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [treebank]


def test_existing_output_is_kept(treebank, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(treebank, "--output", treebank)
    assert "--overwrite" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(tmp_path / "absent.conllu", "--output", tmp_path / "out.conllu")
    assert "absent.conllu" in capsys.readouterr().err


def test_raw_text_is_as_it_was_written(tmp_path):
    """Spaces as `SpaceAfter` of the last token says, also of one of two words; paragraphs with empty lines between."""
    whole = "1\tHi\t_\t_\t_\t_\t0\troot\t_\t{}\n\n"
    two = (
        "1-2\tCan't\t_\t_\t_\t_\t_\t_\t_\t{}\n1\tCa\t_\t_\t_\t_\t0\troot\t_\t_\n"
        "2\tn't\t_\t_\t_\t_\t1\tadvmod\t_\t_\n\n"
    )
    blocks = [
        "# newdoc id = a\n# text = Hi\n" + whole.format("_"),
        "# text = Can't\n" + two.format("SpaceAfter=No"),
        "# text = Hi\n" + whole.format("SpaceAfter=No"),
        "# newpar\n# text = Can't\n" + two.format("_"),
    ]
    (tmp_path / "in.conllu").write_text("".join(blocks))
    run(tmp_path / "in.conllu", "--format", "raw", "--output", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "Hi Can'tHi\n\nCan't\n\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [((), "sentence '' has no '# text'"), (("--drop_punctuation",), "--drop_punctuation has no effect")],
)
def test_raw_text_that_cannot_be(treebank, tmp_path, capsys, options, message):
    with pytest.raises(SystemExit):
        run(treebank, "--format", "raw", "--output", tmp_path / "out", *options)
    assert message in capsys.readouterr().err


def test_training_part_of_gum(data_dir, tmp_path):
    genres = ["academic", "bio", "conversation", "court", "interview", "news", "speech", "textbook", "vlog", "voyage"]
    run(data_dir / "gum/en_gum-dev.conllu", "--output", tmp_path / "out.conllu", "--genres", *genres)
    documents = [sentence.metadata.get("newdoc id") for sentence in read_conllu(tmp_path / "out.conllu")]
    assert len(documents) == 63 + 52 + 329 + 97 + 91 + 64 + 89 + 71 + 95 + 71  # table in the data's README
    assert {document.split("_")[1] for document in documents if document} == set(genres)
