import pytest
import torch
from running import EXAMPLES, load_script
from safetensors import SafetensorError

import hf_structure
from hf_structure import (
    AutoModelForDependencyParsing,
    RNGTransformerConfig,
    RNGTransformerForParsing,
    StructFormerConfig,
    StructFormerForMaskedLM,
    train_word_tokenizer,
)
from hf_structure.hub.user_code import import_code

script = load_script("average_checkpoints")

WORDS = [["the", "dog", "sees", "a", "cat"], ["a", "cat", "sees", "the", "dog"]]
LABELS = {0: "nsubj", 1: "det", 2: "root"}
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="module")
def tokenizer():
    return train_word_tokenizer(WORDS, min_frequency=1)


def parser(tokenizer, seed=0, **settings):
    torch.manual_seed(seed)
    words = {"vocab_size": len(tokenizer), "unk_token_id": tokenizer.unk_token_id}
    sizes = {"id2label": LABELS, "arc_size": 4, "label_size": 4, **SIZES, **settings}
    return RNGTransformerForParsing(RNGTransformerConfig(**words, **sizes))


def masked(tokenizer, seed=0):
    torch.manual_seed(seed)
    return StructFormerForMaskedLM(StructFormerConfig(vocab_size=len(tokenizer), parser_num_layers=1, **SIZES))


@pytest.fixture
def save(tokenizer, tmp_path):
    def save(name, model, tokenizer=tokenizer):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return save


@pytest.mark.parametrize("make", [parser, masked])
def test_every_weight_is_the_mean(make, tokenizer, save, tmp_path):
    models = [make(tokenizer, seed) for seed in range(3)]
    folders = [save(str(seed), model) for seed, model in enumerate(models)]
    script.main([*folders, "--output_dir", str(tmp_path / "mean")])

    states = [model.state_dict() for model in models]
    for name, weight in type(models[0]).from_pretrained(tmp_path / "mean").state_dict().items():
        torch.testing.assert_close(weight, torch.stack([state[name] for state in states]).mean(dim=0))


def test_shares_and_weights_that_stay(tokenizer, save, tmp_path):
    models = [parser(tokenizer, seed) for seed in range(3)]
    folders = [save(str(seed), model) for seed, model in enumerate(models)]
    options = ["--shares", "3", "2", "5", "--keep", "decoder.arc.", "rng_transformer.embeddings."]
    script.main([*folders, *options, "--output_dir", str(tmp_path / "mean")])
    first, second, third = (model.state_dict() for model in models)
    for name, weight in RNGTransformerForParsing.from_pretrained(tmp_path / "mean").state_dict().items():
        mean = 0.3 * first[name] + 0.2 * second[name] + 0.5 * third[name]
        is_kept = name.startswith(("decoder.arc.", "rng_transformer.embeddings."))
        torch.testing.assert_close(weight, first[name] if is_kept else mean)


def test_weights_that_others_lack(tokenizer, save, capsys):
    more = parser(tokenizer, 0, constituents=["NP", "S"], constituent_size=4)
    less = parser(tokenizer, 1)
    first, other = save("more", more), save("less", less)
    mean = script.average([first, other])
    assert mean.constituents.label.weight.equal(more.constituents.label.weight)
    expected = (more.decoder.arc.weight + less.decoder.arc.weight) / 2
    torch.testing.assert_close(mean.decoder.arc.weight, expected)
    printed = capsys.readouterr().out
    assert f"{other} lacks 5 weights, such as constituents.end.weight; those of {first} are taken" in printed
    with pytest.raises(ValueError, match=r"5 weights are others than in .*, such as constituents\."):
        script.average([other, first])


def test_tied_weights_are_averaged_once(tokenizer, save):
    models = [masked(tokenizer, seed) for seed in range(2)]
    assert models[0].get_input_embeddings().weight is models[0].get_output_embeddings().weight
    mean = script.average([save(str(seed), model) for seed, model in enumerate(models)])
    expected = (models[0].get_input_embeddings().weight + models[1].get_input_embeddings().weight) / 2
    torch.testing.assert_close(mean.get_input_embeddings().weight, expected)
    assert mean.get_input_embeddings().weight is mean.get_output_embeddings().weight


@pytest.mark.parametrize("compact", [["--compact"], ["--compact", "int8"]])
def test_a_mean_of_a_model_with_itself_parses_as_it(tokenizer, save, tmp_path, compact):
    model = parser(tokenizer)
    folder = save("model", model)
    script.main([folder, folder, *compact, "--output_dir", str(tmp_path / "mean")])
    first, mean = (hf_structure.parse(WORDS, model=path) for path in (folder, str(tmp_path / "mean")))
    assert [one.dependency.heads for one in first] == [one.dependency.heads for one in mean]
    assert (tmp_path / "mean" / "model.safetensors").stat().st_size < (
        tmp_path / "model" / "model.safetensors"
    ).stat().st_size
    assert AutoModelForDependencyParsing.from_pretrained(tmp_path / "mean").dtype == torch.float32


def test_settings_of_the_first_are_taken_and_that_is_said(tokenizer, save, capsys):
    first, other = save("first", parser(tokenizer)), save("other", parser(tokenizer, num_rounds=1))
    assert script.average([first, other]).config.num_rounds == parser(tokenizer).config.num_rounds
    assert capsys.readouterr().out == f"{other}: num_rounds differ; those of {first} are taken\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"id2label": {0: "det", 1: "nsubj", 2: "root"}}, "another model than .*: id2label differ"),
        ({"arc_size": 6}, "weights are others than in .*, such as "),
        ({"num_hidden_layers": 2}, "weights are others than in .*, such as "),
    ],
)
def test_other_models_are_refused(settings, message, tokenizer, save):
    with pytest.raises(ValueError, match=message):
        script.average([save("first", parser(tokenizer)), save("other", parser(tokenizer, **settings))])


def test_other_families_and_words_are_refused(tokenizer, save):
    first = save("first", parser(tokenizer))
    with pytest.raises(ValueError, match=r"another model than .*: model_type"):
        script.average([first, save("masked", masked(tokenizer))])
    words = train_word_tokenizer([[f"{word}s" for word in sentence] for sentence in WORDS], min_frequency=1)
    other = save("words", parser(words), words)
    with pytest.raises(ValueError, match="has another vocabulary than"):
        script.average([first, other])


def test_wrong_commands_end_in_one_line(tokenizer, save, tmp_path, capsys):
    folder = save("model", parser(tokenizer))
    cases = {
        "give at least two models": [folder, "--output_dir", str(tmp_path / "new")],
        "--shares needs a number above 0 for each of the 2 models": [
            *(folder, folder, "--shares", "1", "--output_dir", str(tmp_path / "new"))
        ],
        f"--keep: no weight of {folder} begins with 'tager'": [
            *(folder, folder, "--keep", "tager", "--output_dir", str(tmp_path / "new"))
        ],
        "is not empty": [folder, folder, "--output_dir", folder],
        "holds no model": [folder, str(tmp_path / "nowhere"), "--output_dir", str(tmp_path / "new")],
    }
    for message, arguments in cases.items():
        with pytest.raises(SystemExit, match="1"):
            script.main(arguments)
        assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "new").exists()


def test_own_families(tokenizer, save, tmp_path):
    own = import_code(str(EXAMPLES / "own_udgn.py"))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": len(tokenizer)}
    folders = [save(name, own.OwnForMaskedLM(own.OwnConfig(**sizes))) for name in "ab"]
    script.main(["--import", str(EXAMPLES / "own_udgn.py"), *folders, "--output_dir", str(tmp_path / "mean")])
    assert type(AutoModelForDependencyParsing.from_pretrained(tmp_path / "mean")) is own.OwnForMaskedLM


def test_a_full_disk_is_one_line(tokenizer, save, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    folders = [save(name, parser(tokenizer)) for name in "ab"]
    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", fail)
    with pytest.raises(SystemExit):
        script.main([*folders, "--output_dir", str(tmp_path / "mean")])
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.endswith(f"error: {tmp_path / 'mean'}: No space left on device")
