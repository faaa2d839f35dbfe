"""The parser of many languages, on sentences of fourteen scripts that were written for this test."""

import io
from pathlib import Path

import pytest
from udtools.validator import Validator

import hf_structure
from hf_structure.parsing.loading import load_parser

FOLDER = Path(__file__).parents[1] / "model_cards" / "rngt-multilingual"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="not in archives: the model is too large")

# Words, heads and relations.
SENTENCES = {
    "Latin": (
        "Die Katze , die die Maus jagte , schlief .",
        [2, 9, 2, 7, 6, 7, 2, 7, 0, 9],
        "det nsubj punct nsubj det obj acl:relcl punct root punct",
    ),
    "Cyrillic": (
        "Кошка , которую мы видели , спит в саду .",
        [7, 5, 5, 5, 1, 5, 0, 9, 7, 7],
        "nsubj punct obj nsubj acl:relcl punct root case obl punct",
    ),
    "Greek": ("Η γάτα κοιμάται στο σπίτι .", [2, 3, 0, 5, 3, 3], "det nsubj root case obl punct"),
    "Armenian": ("Կատուն քնած է այգում ։", [2, 0, 2, 2, 2], "nsubj root aux obl punct"),
    "Georgian": ("კატა ჭამს თევზს .", [2, 0, 2, 2], "nsubj root obj punct"),
    "Arabic": ("القط ينام في الحديقة .", [2, 0, 4, 2, 2], "nsubj root case obl punct"),
    "Persian": ("گربه‌ها در باغ می‌خوابند .", [4, 3, 4, 0, 4], "nsubj case obl:arg root punct"),
    "Devanagari": ("मांजर बागेत झोपते .", [3, 3, 0, 3], "nsubj obl root punct"),
    "Tamil": ("பூனை தோட்டத்தில் தூங்குகிறது .", [3, 3, 0, 3], "nsubj obl root punct"),
    "Telugu": ("పిల్లి పాలు తాగింది .", [3, 3, 0, 3], "nsubj obj root punct"),
    "Hangul": ("내가 고양이를 보았다 .", [3, 3, 0, 3], "nsubj obj root punct"),
    "Ethiopic": ("ልጁ መጽሐፍ አነበበ ።", [3, 3, 0, 3], "nsubj obj root punct"),
    "Hebrew": ("החתול ישן .", [2, 0, 2], "nsubj root punct"),
    "Han": (
        "她 昨天 买 了 一 本 书 。",
        [3, 3, 0, 3, 7, 5, 3, 3],
        "nsubj obl:tmod root aux nummod clf obj punct",
    ),
    "Hiragana": ("猫 は 魚 を 食べ た 。", [5, 1, 5, 3, 0, 5, 5], "nsubj case obj case root aux punct"),
}


@pytest.fixture(scope="module")
def parser():
    model, tokenizer = load_parser(str(FOLDER), None, None, None, None, False)
    return model, tokenizer


@pytest.mark.parametrize("script", SENTENCES)
def test_sentence(parser, script):
    words, heads, relations = SENTENCES[script]
    model, tokenizer = parser
    [parsed] = hf_structure.parse([words.split()], model, tokenizer=tokenizer)
    assert [word.head for word in parsed] == heads
    assert [word.relation for word in parsed] == relations.split()


def test_raw_text():
    parsed = hf_structure.parse("Die Katze, die die Maus jagte, schlief.", model=str(FOLDER))
    words, heads, _ = SENTENCES["Latin"]
    assert list(parsed.words) == words.split()
    assert [word.head for word in parsed] == heads


@pytest.mark.parametrize(
    ("text", "lemmas"),
    [
        ("Olemme menossa kaupunkiin.", "olla mennä kaupunki ."),
        ("Hier, nous sommes allés au parc.", "hier , nous être aller à le parc ."),
        ("The cats were sleeping.", "the cat be sleep ."),
    ],
)
def test_lemmas(text, lemmas):
    assert [word.lemma for word in hf_structure.parse(text, model=str(FOLDER))] == lemmas.split()


# The number of sentences in each text, which was written for this test, too.
RAW = {
    "zh": ("昨天下午我和朋友去了河边的小公园。那里有很多孩子在放风筝。", 2),
    "ja": ("昨日の午後、友達と川のそばの公園へ行きました。木の下でお茶を飲みました。", 2),
    "th": ("เมื่อวานนี้ฉันไปเดินเล่นที่สวนสาธารณะกับเพื่อน", 1),
    "he": ("אתמול הלכתי עם חברה לפארק הקטן שליד הנהר. הילדים שיחקו שם.", 2),
    "fr": ("Hier, je suis allé au parc près du fleuve. Nous avons bu du thé à l'ombre d'un arbre.", 2),
    "de": ("Gestern war ich mit einer Freundin im Park am Fluss. Wir saßen zum Tee unter einem Baum.", 2),
    "tr": ("Dün arkadaşımla nehrin kenarındaki küçük parka gittim. Ağacın altında çay içtik.", 2),
    "fi": ("Eilen kävin ystäväni kanssa pienessä puistossa. Me joimme teetä puun alla.", 2),
    "el": ("Χθες πήγα με μια φίλη στο μικρό πάρκο δίπλα στο ποτάμι. Εκεί έπαιζαν πολλά παιδιά.", 2),
    "vi": ("Chiều hôm qua tôi cùng một người bạn ra công viên nhỏ bên bờ sông. Chúng tôi ngồi uống trà.", 2),
}


@pytest.fixture(scope="module")
def paragraphs(parser):
    model, tokenizer = parser
    texts = [text for text, _ in RAW.values()]
    options = {"sentences": "auto", "language": "auto"}
    return dict(zip(RAW, hf_structure.parse(texts, model, tokenizer=tokenizer, **options), strict=True))


@pytest.mark.parametrize("language", RAW)
def test_paragraphs_become_complete_annotation(paragraphs, language):
    text, sentences = RAW[language]
    parses = paragraphs[language]
    assert len(parses) == sentences
    assert [text[parse.start : parse.start + len(parse.text)] for parse in parses] == [parse.text for parse in parses]
    assert "".join("".join(parse.text.split()) for parse in parses) == "".join(text.split())
    assert parses[0].language == language
    validator = Validator(lang="ud", level=2, output=None)
    assert not list(validator.validate_file_handle(io.StringIO(parses.to_conllu())).error_tracker)
    assert all(word.lemma and word.upos for parse in parses for word in parse)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Wir saßen zum Tee unter dem Baum des Gartens.", "Wir saßen zu dem Tee unter dem Baum des Gartens ."),
        ("Nous allons aux champs du roi.", "Nous allons à les champs de le roi ."),
    ],
)
def test_contractions_of_a_language_that_is_not_told(parser, text, words):
    model, tokenizer = parser
    [parse] = hf_structure.parse(text, model, tokenizer=tokenizer, sentences="auto")
    assert list(parse.words) == words.split()


def test_joiner_is_no_unknown_piece(parser):
    _, tokenizer = parser
    assert tokenizer.unk_token_id not in tokenizer("گربه‌ها می‌خوابند")["input_ids"]


def test_half_as_large_as_float32(parser):
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 106e6
    assert parser[0].dtype.itemsize == 4
