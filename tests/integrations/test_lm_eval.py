"""lm_eval and minicons over the models of this library."""

import json
import sys
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from tiny_models import GRAPHS, new_gilt, new_gpt2, new_pushdown, randomise, save, unigram_tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from hf_structure import GiLTForCausalLM, PushdownLMForCausalLM, score
from hf_structure.text.words import tokenize_words

pytest.importorskip("lm_eval")
pytest.importorskip("minicons")

import lm_eval.tasks
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import Registry
from lm_eval.models.huggingface import HFLM
from minicons.scorer import IncrementalLMScorer

from hf_structure.integrations.lm_eval import StructureLM, cli_evaluate
from hf_structure.integrations.minicons import StructureLMScorer

GRAFTS = ("graft", "stacks")
STRUCTURED = ("gilt", "pushdown", *GRAFTS)
NOUNS = ("dog", "cat", "bird", "senator")
PAIRS = [
    (f"The {noun} doesn't see {other}s.", f"The {noun}s doesn't see {other}.") for noun in NOUNS for other in NOUNS
]
PAIRS.append((PAIRS[0][0], PAIRS[0][0]))  # a tie


WORDS = [sentence.split() for pair in PAIRS for sentence in pair]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    """Folder of a tiny random GPT-2."""
    return new_gpt2(tmp_path_factory.mktemp("gpt2"), [PAIRS[0][0]], vocab_size=270)


@pytest.fixture(scope="module")
def gilt(tmp_path_factory) -> Path:
    """Folder of a tiny random GiLT."""
    return new_gilt(tmp_path_factory.mktemp("gilt"), unigram_tokenizer(WORDS))


@pytest.fixture(scope="module")
def baseline(tmp_path_factory) -> Path:
    """The same without graphs."""
    folder = tmp_path_factory.mktemp("baseline")
    return new_gilt(folder, unigram_tokenizer(WORDS), graph_layers=0)


@pytest.fixture(scope="module")
def graft(gpt2, tmp_path_factory) -> Path:
    """Graphs on the GPT-2."""
    model = GiLTForCausalLM.from_pretrained_lm(str(gpt2), **GRAPHS)
    return save(randomise(model), AutoTokenizer.from_pretrained(gpt2), tmp_path_factory.mktemp("graft"))


@pytest.fixture(scope="module")
def pushdown(tmp_path_factory) -> Path:
    """Folder of a tiny random Pushdown-LM."""
    return new_pushdown(tmp_path_factory.mktemp("pushdown"), unigram_tokenizer(WORDS))


@pytest.fixture(scope="module")
def stacks(gpt2, tmp_path_factory) -> Path:
    """Stacks on the GPT-2."""
    model = PushdownLMForCausalLM.from_pretrained_lm(str(gpt2), attachment_size=8)
    return save(randomise(model), AutoTokenizer.from_pretrained(gpt2), tmp_path_factory.mktemp("stacks"))


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    """Folder with lm_eval's own task of BLiMP, over local pairs."""
    folder = tmp_path_factory.mktemp("task")
    rows = ({"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS)
    (folder / "pairs.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    template = Path(lm_eval.tasks.__file__).parent / "blimp" / "_template_yaml"
    config = {"include": str(template), "task": "made_blimp", "dataset_path": "json", "dataset_name": None}
    config["dataset_kwargs"] = {"data_files": {"train": str(folder / "pairs.json")}}
    (folder / "made_blimp.yaml").write_text(json.dumps(config))
    return folder


def requests(*arguments: tuple) -> list[Instance]:
    kind = "loglikelihood" if len(arguments[0]) == 2 else "loglikelihood_rolling"
    return [Instance(request_type=kind, doc={}, arguments=each, idx=i) for i, each in enumerate(arguments)]


def load(model_class, folder: Path, **options):
    return model_class(str(folder), device="cpu", batch_size=4, **options)


def raw_log_probs(folder: Path, texts: list[str], **options) -> list[float]:
    return [scored.log_prob for scored in score(texts, folder, raw=True, **options)]


# lm_eval


@pytest.mark.parametrize("model_name", ["gpt2", "baseline"])
def test_raw_scores_are_those_of_lm_eval(model_name, request):
    """lm_eval's own model, multiple choice (after a space) and rolling."""
    folder, texts = request.getfixturevalue(model_name), [" " + good for good, _ in PAIRS]
    model = load(HFLM, folder)
    found = [value for value, _ in model.loglikelihood(requests(*(("", text) for text in texts)))]
    assert raw_log_probs(folder, texts) == pytest.approx(found, abs=1e-4)
    if model_name == "gpt2":  # with the other, lm_eval scores a beginning token after the one that it adds
        texts = ["The dog", "cat's"]
        rolling = model.loglikelihood_rolling(requests(*((text,) for text in texts)))
        assert raw_log_probs(folder, texts) == pytest.approx(rolling, abs=1e-4)


@pytest.mark.parametrize("model_name", ["gpt2", "baseline"])
def test_models_without_graphs_score_as_in_lm_eval(model_name, request):
    folder = request.getfixturevalue(model_name)
    asked = requests(("The dog", " sees"), ("", "cats see."), ("The", " cat doesn't see"))
    assert load(StructureLM, folder).loglikelihood(asked) == load(HFLM, folder).loglikelihood(asked)


@pytest.mark.parametrize("model_name", STRUCTURED)
def test_marginal_probabilities(model_name, request):
    folder = request.getfixturevalue(model_name)
    model, texts = load(StructureLM, folder, beam_size=3), [" " + good for good, _ in PAIRS[:4]]
    found = model.loglikelihood(requests(*(("", text) for text in texts)))
    expected = raw_log_probs(folder, texts, beam_size=3)
    assert [value for value, _ in found] == pytest.approx(expected, abs=1e-4)
    plain = load(HFLM, folder).loglikelihood(requests(("", texts[0])))[0][0]
    assert plain != pytest.approx(expected[0], abs=1e-2)  # structures matter


@pytest.mark.parametrize("model_name", STRUCTURED)
def test_marginal_probabilities_of_continuations(model_name, request):
    folder = request.getfixturevalue(model_name)
    model = load(StructureLM, folder, beam_size=3, max_tokens=60)
    found = model.loglikelihood(requests(("The dog", " sees cats."), ("The cats", " see")))
    for (value, is_greedy), (context, text) in zip(
        found, [("The dog", "The dog sees cats."), ("The cats", "The cats see")], strict=True
    ):
        before, whole = raw_log_probs(folder, [context, text], beam_size=3)
        assert value == pytest.approx(whole - before, abs=1e-4)
        assert is_greedy is False


def test_rolling_marginal_probability(graft):
    found = load(StructureLM, graft, beam_size=3).loglikelihood_rolling(requests(("The dog sees",)))
    assert found == pytest.approx(raw_log_probs(graft, ["The dog sees"], beam_size=3), abs=1e-4)


@pytest.mark.slow
def test_long_texts_lose_their_left(graft):
    """As many tokens are read as there are positions."""
    text = "The dog sees cats. " * 20
    [(value, _)] = load(StructureLM, graft, beam_size=1).loglikelihood(requests((text, "end")))
    assert value < 0


def test_split_words(gilt):
    model = load(StructureLM, gilt, beam_size=3, split_words=True)
    [(value, _)] = model.loglikelihood(requests(("", " The dog doesn't see cats.")))
    assert value == pytest.approx(raw_log_probs(gilt, [" The dog does n't see cats ."], beam_size=3)[0], abs=1e-4)


def blimp_accuracy(folder: Path, **options) -> float:
    """From raw scores, ties counted as right."""
    log_probs = raw_log_probs(folder, [" " + sentence for pair in PAIRS for sentence in pair], **options)
    return sum(good >= bad - 1e-5 for good, bad in zip(log_probs[::2], log_probs[1::2], strict=True)) / len(PAIRS)


@pytest.mark.parametrize(
    "model_name", ["gilt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "pushdown"))]
)
def test_accuracy_is_that_of_raw_scores(model_name, task, request):
    folder, options = request.getfixturevalue(model_name), {"beam_size": 2} if model_name in STRUCTURED else {}
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    manager = lm_eval.tasks.TaskManager(include_path=str(task), include_defaults=False)
    lm = StructureLM(model, tokenizer=tokenizer, **options)
    found = simple_evaluate(lm, tasks=["made_blimp"], task_manager=manager)["results"]["made_blimp"]["acc,none"]
    assert found == pytest.approx(blimp_accuracy(folder, **options))
    assert 0 < found < 1


@pytest.mark.slow
def test_the_command(gilt, task, tmp_path, monkeypatch):
    """`python -m hf_structure.integrations.lm_eval`."""
    arguments = ["--model", "hf_structure", "--model_args", f"pretrained={gilt},beam_size=2", "--tasks", "made_blimp"]
    arguments += ["--device", "cpu", "--include_path", str(task), "--output_path", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
    cli_evaluate()
    [file] = tmp_path.rglob("results_*.json")
    found = json.loads(file.read_text())["results"]["made_blimp"]["acc,none"]
    assert found == pytest.approx(blimp_accuracy(gilt, beam_size=2))


def test_entry_point_is_a_model_of_lm_eval():
    """Releases after 0.4.13 register the entry points of this group, and load them by name."""
    config = ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    (line,) = config["options.entry_points"]["lm_eval.models"].split("\n")[1:]
    name, value = line.split(" = ")
    registry = Registry("model", base_cls=LM)
    registry.register(name, target=EntryPoint(name, value, "lm_eval.models"))
    assert registry.get("hf_structure") is StructureLM


@pytest.mark.parametrize("model_name", ["gpt2", *STRUCTURED])
def test_generation(model_name, request):
    """Prompts of different lengths, with structures what `generate` writes after each alone."""
    folder = request.getfixturevalue(model_name)
    prompts, settings = ["The dog", "The cats see the bird"], {"until": ["."], "max_gen_toks": 5}
    lm = load(StructureLM, folder)
    asked = [Instance("generate_until", {}, (prompt, dict(settings)), i) for i, prompt in enumerate(prompts)]
    found = lm.generate_until(asked)
    building = {"use_structure": True} if model_name in ("pushdown", "stacks") else {}
    if model_name in ("gilt", "graft"):
        building = {"use_structure": True, "tokenizer": lm.tokenizer}
    for prompt, text in zip(prompts, found, strict=True):
        ids = lm.tokenizer(prompt, return_tensors="pt")["input_ids"]
        if model_name in GRAFTS:
            ids = torch.nn.functional.pad(ids, (1, 0), value=lm.prefix_token_id)
        written = lm.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=5,
            do_sample=False,
            pad_token_id=lm.tokenizer.pad_token_id,
            **building,
        )
        expected = lm.tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
        assert text == expected.split(".")[0]


@pytest.mark.parametrize("loaded", [False, True])
def test_masked_models_are_refused(structformer, loaded):
    pretrained = AutoModelForMaskedLM.from_pretrained(structformer) if loaded else str(structformer)
    with pytest.raises(ValueError, match=r"^lm_eval has no masked language models: .* take them$"):
        StructureLM(pretrained, device="cpu")


# minicons


@pytest.mark.parametrize("model_name", ["gpt2", "baseline"])
def test_minicons_without_graphs(model_name, request):
    folder, texts = request.getfixturevalue(model_name), [good for good, _ in PAIRS[:3]]
    ours, theirs = StructureLMScorer(folder), IncrementalLMScorer(str(folder))
    assert ours.token_score(texts, surprisal=True, rank=True) == theirs.token_score(texts, surprisal=True, rank=True)
    assert ours.conditional_score("The dog", "sees.") == theirs.conditional_score("The dog", "sees.")


@pytest.mark.parametrize("model_name", STRUCTURED)
def test_minicons_with_marginal_probabilities(model_name, request):
    folder, texts = request.getfixturevalue(model_name), [good for good, _ in PAIRS[:3]]
    bos = {"bos_token": True} if model_name in GRAFTS else {}
    scorer, expected = StructureLMScorer(folder, beam_size=3), score(texts, folder, raw=True, beam_size=3)
    for found, scored in zip(scorer.token_score(texts, surprisal=True, **bos), expected, strict=True):
        assert [token for token, _ in found[1:]] == scored.tokens
        assert [value for _, value in found] == pytest.approx([0.0, *scored.token_surprisals], abs=1e-4)
    sums = scorer.sequence_score(texts, reduction=lambda scores: scores.sum().item(), **bos)
    assert sums == pytest.approx([scored.log_prob for scored in expected], abs=1e-4)
    bits = scorer.sequence_score(texts, reduction=lambda scores: scores.sum().item(), base_two=True, **bos)
    assert bits == pytest.approx([value / 0.6931472 for value in sums], rel=1e-5)


@pytest.mark.parametrize("model_name", ["gpt2", "baseline"])
def test_pauses_are_not_scored(model_name, request, tmp_path):
    """In lm_eval and in minicons as by `score`."""
    folder = request.getfixturevalue(model_name)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.config.pause_token_ids = [7, 8]
    save(model, AutoTokenizer.from_pretrained(folder), tmp_path)
    texts = [" " + good for good, _ in PAIRS[:3]]
    expected = raw_log_probs(tmp_path, texts)
    assert expected != pytest.approx(raw_log_probs(folder, texts), abs=1e-2)
    harness = load(StructureLM, tmp_path)
    found = [value for value, _ in harness.loglikelihood(requests(*(("", text) for text in texts)))]
    assert found == pytest.approx(expected, abs=1e-4)
    bos = {"bos_token": True} if model_name == "gpt2" else {}
    sums = StructureLMScorer(tmp_path).sequence_score(texts, reduction=lambda scores: scores.sum().item(), **bos)
    assert sums == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="generates no text"):
        harness._model_generate(None, 3, [])


def test_default_dtype_does_not_change_minicons(gilt, with_other_default):
    scorer, texts = StructureLMScorer(gilt, beam_size=3), [good for good, _ in PAIRS[:3]]
    assert with_other_default(lambda: scorer.token_score(texts)) == scorer.token_score(texts)


def test_minicons_continuations(gilt):
    scorer = StructureLMScorer(gilt, beam_size=3)
    [found] = scorer.conditional_score("The dog", "sees cats.", reduction=lambda scores: scores.sum().item())
    before, whole = raw_log_probs(gilt, ["The dog", "The dog sees cats."], beam_size=3)
    assert found == pytest.approx(whole - before, abs=1e-4)


@pytest.mark.parametrize("model_name", ["gilt", "baseline", "pushdown"])
def test_minicons_splits_words(model_name, request):
    folder, texts = request.getfixturevalue(model_name), [good for good, _ in PAIRS[:3]]
    options = {} if model_name == "baseline" else {"beam_size": 3}
    scorer = StructureLMScorer(folder, split_words=True, **options)
    expected = score(texts, folder, eos=False, **options)
    assert expected[0].words[:4] == ["The", "dog", "does", "n't"]
    for found, scored in zip(scorer.token_score(texts, surprisal=True), expected, strict=True):
        assert [token for token, _ in found[1:]] == scored.tokens
        assert [value for _, value in found[1:]] == pytest.approx(scored.token_surprisals, abs=1e-4)
    totals = scorer.sequence_score(texts, reduction=lambda scores: scores.sum().item())
    assert totals == pytest.approx([scored.log_prob for scored in expected], abs=1e-4)
    words = scorer.word_score_tokenized(texts, tokenize_words, surprisal=True)
    assert [[word for word, _ in found] for found in words] == [scored.words for scored in expected]
    for found, scored in zip(words, expected, strict=True):
        assert [value for _, value in found] == pytest.approx(scored.word_surprisals, abs=1e-4)


def test_minicons_continuations_of_words(gilt):
    scorer = StructureLMScorer(gilt, beam_size=3, split_words=True)
    total = {"reduction": lambda scores: scores.sum().item()}
    prefixes, stimuli = ["The dog doesn't", "The cats", "The cat"], ["see cats.", "don't", "sees"]
    wholes = ["The dog does n't see cats .", "The cats do n't", "The cat sees"]
    befores = ["The dog does n't", "The cats", "The cat"]
    expected = raw_log_probs(gilt, [*wholes, *befores], beam_size=3)
    expected = [whole - before for whole, before in zip(expected[:3], expected[3:], strict=True)]
    assert scorer.conditional_score(prefixes, stimuli, **total) == pytest.approx(expected, abs=1e-4)
    [alone] = scorer.conditional_score(prefixes[0], stimuli[0], **total)
    assert alone == pytest.approx(expected[0], abs=1e-4)


def test_minicons_splits_words_of_grafts(graft):
    """Their tokenizers add no beginning token: minicons does."""
    texts, bos = ["The dog sees  cats."], {"bos_token": True}
    scorer = StructureLMScorer(graft, beam_size=2, split_words=True)
    [found] = scorer.token_score(texts, surprisal=True, **bos)
    [scored] = score(["The dog sees cats ."], graft, raw=True, beam_size=2)
    assert [value for _, value in found[1:]] == pytest.approx(scored.token_surprisals, abs=1e-4)
    [found] = scorer.conditional_score(
        ["The dog"], ["sees  cats."], reduction=lambda scores: scores.sum().item(), **bos
    )
    [before] = raw_log_probs(graft, ["The dog"], beam_size=2)
    assert found == pytest.approx(scored.log_prob - before, abs=1e-4)


def test_minicons_and_clitics():
    """Glued to its verb, as in raw text, the bundled model has never seen a clitic."""
    text, costs = "The cats don't sleep.", {}
    for split_words in (False, True):
        [found] = StructureLMScorer("gilt-en", split_words=split_words).token_score(text, surprisal=True)
        place = [token for token, _ in found].index("n't")
        costs[split_words] = sum(value for _, value in found[place - split_words : place + 1])
    assert costs[False] == pytest.approx(11.9, abs=0.1)
    assert costs[True] == pytest.approx(0.9, abs=0.1)


def test_what_minicons_cannot_have(gilt, graft):
    with pytest.raises(ValueError, match="no ranks"):
        StructureLMScorer(gilt).token_score("The dog", rank=True)
    with pytest.raises(ValueError, match="begin with the beginning token, which this one lacks"):
        StructureLMScorer(graft).token_score("The dog")
