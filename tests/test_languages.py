"""Other scripts, from raw text to pictures and files. All sentences are made."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hf_structure
from hf_structure.cli.main import main
from hf_structure.text.conllu import read_conllu
from hf_structure.text.normalization import is_punctuation, normalize_word
from hf_structure.text.scripts import script_sentence_spans
from hf_structure.text.words import find_words, split_sentences, tokenize_words, unicode_words

# Words with spaces between them, of sentences as they are written.
WORDS = {
    "arabic": ("قرأت ليلى الكتاب، أليس كذلك؟", "قرأت ليلى الكتاب ، أليس كذلك ؟"),
    "arabic digits": ("وصل ٣٫٥ كغم.", "وصل ٣٫٥ كغم ."),
    "arabic vowels": ("كَتَبَ الوَلَدُ.", "كَتَبَ الوَلَدُ ."),
    "hebrew": ('צה"ל הודיע: "לא".', 'צה"ל הודיע : " לא " .'),
    "persian": ("می\u200cروم؛ خداحافظ.", "می\u200cروم ؛ خداحافظ ."),
    "hindi": ("मैं किताब पढ़ती हूँ।", "मैं किताब पढ़ती हूँ ।"),
    "chinese": ("我在家看书。", "我 在 家 看 书 。"),
    "japanese": ("私はテレビを見た。", "私 は テレビ を 見 た 。"),
    "thai": ("แมว ดี", "แ ม ว ดี"),
    "turkish": ("İzmir'de ılık bir gün.", "İzmir'de ılık bir gün ."),
    "german": ("Im Haus, am 3. Tag.", "Im Haus , am 3 . Tag ."),
    "french": (
        "L'homme qu’il a vu aujourd'hui, jusqu'à « l'«an» » 1.",
        "L' homme qu’ il a vu aujourd'hui , jusqu' à « l' « an » » 1 .",
    ),
    "catalan": ("L'home d'avui s'hi va.", "L' home d' avui s' hi va ."),
    "italian": (
        "Un'amica dell'isola, nell'800, c'è un po' d'arte.",
        "Un' amica dell' isola , nell' 800 , c' è un po' d' arte .",
    ),
    "irish": ("D'fhan sé; b'fhearr.", "D' fhan sé ; b' fhearr ."),
    "maltese": ("B'mod f'Malta x'inhu.", "B' mod f' Malta x' inhu ."),
    "welsh": ("Mae'r tŷ'n fawr, a'i do i'w weld.", "Mae 'r tŷ'n fawr , a 'i do i 'w weld ."),
    "spoken german": ("Geht's? Er sah's.", "Geht 's ? Er sah's ."),
    "one word of other languages": (
        "Ch'ti O'Neil don't zo'n c'hoar t'i m'ua п'ять o'zbek Rousseau'n Ankara'nın",
        "Ch'ti O'Neil don't zo'n c'hoar t'i m'ua п'ять o'zbek Rousseau'n Ankara'nın",
    ),
    "russian": ("Он спал, а я нет.", "Он спал , а я нет ."),
    "nothing": (" \n\u3000", ""),
}
SENTENCES = {
    "arabic": ["هل نمت؟", "نعم.", "وصل د. سامي!"],
    "urdu": ["بارش ہوئی۔", "ہم گھر گئے۔"],
    "hebrew": ["הוא ישן.", "היא לא."],
    "hindi": ["बारिश हुई।", "हम घर गए।"],
    "german": ["Er kam.", "Über Nacht blieb er.", "„Gut.“", "Das war alles."],
    "spanish": ["Llueve.", "¿Quién viene?", "¡Nadie!"],
    "russian": ["Шёл дождь.", "А. Б. Иванов спал."],
    "amharic": ["ዝናብ ዘነበ።", "ቤት ገባን።"],
}
ADJACENT = {  # without white space between sentences
    "chinese": ["下雨了。", "你呢？", "“我在家。”他说。", "好！"],
    "japanese": ["雨が降った。", "「行く？」と言った。", "そうか……。"],
}


@pytest.mark.parametrize(("text", "words"), WORDS.values(), ids=WORDS)
def test_words(text, words):
    assert unicode_words(text) == words.split()


@given(st.text(st.sampled_from("aé１٣ُی\u200c\u200dकि我テ.'\" \n\u3000👍🏽"), max_size=30))
def test_words_are_the_text_and_have_places_in_it(text):
    for split in (unicode_words, tokenize_words):
        words = split(text)
        assert "".join(words) == "".join(text.split())
        assert [text[start:end] for start, end in find_words(text, words)] == words


@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_sentences(sentences):
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("\n".join(sentences)) == sentences


@pytest.mark.parametrize("sentences", ADJACENT.values(), ids=ADJACENT)
def test_sentences_without_white_space(sentences):
    assert split_sentences("".join(sentences)) == sentences
    assert split_sentences("\u3000".join(sentences)) == sentences


@given(st.text(st.sampled_from("aBé我य.!?。！？।؟…」”'「 \n"), max_size=30))
def test_sentences_are_the_text(text):
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    spans = script_sentence_spans(text)
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


# Sentences that no rule for English words helps to find.
ANY_LANGUAGE = {
    "armenian": ["Անձրև եկավ։", "Նա քնեց։"],
    "georgian": ["წვიმდა.", "ის სახლში წავიდა.", "ვინ მოვიდა?"],
    "greek": ["Έβρεξε;", "Ναι· πήγα σπίτι.", "Καλά."],
    "czech": ["Přišel např. dnes ráno.", "Pan Dr. Novák spal.", "Kdy?"],
    "german": ["Er kam usw. nicht.", "Das ist z. B. so.", "„Gut.“", "Hr. J. S. Bach schlief."],
    "russian": ["Он живёт на ул. Мира.", "И т. д. и т. п. она знала.", "Да!"],
    "references": ["Siehe Abb. 2 und Figs. 3.", "Vgl. pp. 4, Eq. (1) und Chap. 5."],
    "spanish": ["Vino la Sra. Gómez.", "¿Quién viene?", "¡Nadie!", "Fin…"],
    "burmese": ["မိုးရွာသည်။", "သူအိပ်သည်။"],
    "lines": ["Ein Titel", "Ein Satz."],
}


@pytest.mark.parametrize("sentences", [*ANY_LANGUAGE.values(), *SENTENCES.values()], ids=[*ANY_LANGUAGE, *SENTENCES])
def test_sentences_of_any_language(sentences):
    separator = "\n\n" if sentences == ANY_LANGUAGE["lines"] else " "
    text = f" {separator.join(sentences)}\n"
    assert [text[start:end] for start, end in script_sentence_spans(text, line_breaks="space")] == sentences


@pytest.mark.parametrize("sentences", ADJACENT.values(), ids=ADJACENT)
def test_sentences_of_any_language_without_white_space(sentences):
    text = "".join(sentences)
    assert [text[start:end] for start, end in script_sentence_spans(text)] == sentences


def test_words_and_sentences_of_any_language_go_together():
    text = "Přišel např. dnes. ის წავიდა. ვინ მოვიდა?"
    options = {"sentences": "split", "model": "rngt-en-fast"}
    parses = hf_structure.parse(text, word_tokenizer="unicode", **options)
    assert [parsed.text for parsed in parses] == ["Přišel např. dnes.", "ის წავიდა.", "ვინ მოვიდა?"]
    assert hf_structure.parse(text, **options)[0].text == "Přišel např."


def test_punctuation_of_other_scripts():
    assert all(map(is_punctuation, ["،", "؛", "؟", "۔", "।", "。", "、", "「", "」", "！", "…", "«", "„", "־", "׀"]))
    assert not any(map(is_punctuation, ["٪", "％", "＆", "٣", "क", "ー", "々", "¥", "和"]))


def test_lower_case_is_that_of_english():
    """What docs/languages.md says of Turkish and of digits."""
    assert normalize_word("ISPARTA") == "isparta"  # not ısparta
    assert normalize_word("٣٥ ३५") == "٣٥ ३५"


# from text to pictures

ARABIC = "قرأت ليلى كتابا جديدا."
CHINESE = "我昨天在家看书。"


@pytest.fixture(params=["rngt-en-fast", "structformer-en"])
def model(request):
    return request.param


@pytest.mark.parametrize("text", [ARABIC, CHINESE, WORDS["hebrew"][0], WORDS["hindi"][0]])
def test_from_text_to_conllu_and_back(model, text, tmp_path):
    parsed = hf_structure.parse(text, model, word_tokenizer="unicode")
    assert list(parsed.words) == unicode_words(text)
    assert [text[start:end] for start, end in parsed.word_spans] == list(parsed.words)
    parsed.save(tmp_path / "x.conllu")
    [sentence] = read_conllu(tmp_path / "x.conllu")
    assert sentence.metadata["text"] == text
    assert (sentence.forms, sentence.heads) == (list(parsed.words), list(parsed.dependency.heads))
    glued = [word.misc.split("|") for word in sentence.words]
    spaced = "".join(
        form + ("" if "SpaceAfter=No" in misc else " ") for form, misc in zip(sentence.forms, glued, strict=True)
    )
    assert spaced.rstrip() == text


def places(svg: str, words: list[str]) -> list[float]:
    """Where on the line each word stands."""
    found = {form: float(x) for x, form in re.findall(r'<text [^>]*?\bx="([\d.]+)"[^>]*>([^<]+)<', svg)}
    return [found[word] for word in words]


@pytest.mark.parametrize(
    ("text", "is_right_to_left"), [(ARABIC, True), (WORDS["persian"][0], True), (CHINESE, False)], ids=str
)
def test_pictures_follow_the_script(model, text, is_right_to_left):
    parsed = hf_structure.parse(text, model, word_tokenizer="unicode")
    x = places(parsed.dependency.to_svg(), list(parsed.words))
    assert x == sorted(x, reverse=is_right_to_left)
    assert len(set(x)) == len(x)


# switches


def test_a_splitter_of_ones_own():
    text = "Bzw. so.  Und dann?"
    parses = hf_structure.parse(text, sentences=lambda text: re.findall(r"Bzw. so\.|Und dann\?", text))
    assert [(parsed.text, parsed.start) for parsed in parses] == [("Bzw. so.", 0), ("Und dann?", 10)]
    assert hf_structure.parse("", sentences=lambda text: []) == []
    for wrong in (["Und dann?", "Bzw. so."], ["Bzw. so."], ["Bzw. so.", "", "Und dann?"]):
        with pytest.raises(ValueError, match=r"the sentences of 'Bzw. so.  Und dann\?' are not its parts"):
            hf_structure.parse(text, sentences=lambda _, wrong=wrong: wrong)
    with pytest.raises(ValueError, match="need sentences='line'"):
        hf_structure.parse(text, sentences=str.splitlines, tags=["X"])


def test_words_by_unicode_from_the_shell(tmp_path, capsys):
    path = Path(tmp_path, "zh.txt")
    path.write_text("我看书。你呢？\n", encoding="utf-8")
    main(["parse", "--word-tokenizer", "unicode", "--sentences", "split", "--format", "conllu", str(path)])
    first, second = read_conllu(capsys.readouterr().out.splitlines(keepends=True))
    assert (first.forms, second.forms) == (["我", "看", "书", "。"], ["你", "呢", "？"])
