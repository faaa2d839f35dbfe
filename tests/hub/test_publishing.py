"""From a folder to the Hub, and back."""

from pathlib import Path

import pytest
from hub_server import TOKEN
from huggingface_hub import ModelCard
from parsers import new_parser
from torch.testing import assert_close
from transformers import AutoTokenizer, PreTrainedModel, pipeline

import hf_structure
from hf_structure import UDGNForMaskedLM
from hf_structure.cli.main import main
from hf_structure.hub.locating import resolve_model
from hf_structure.hub.publishing import UnknownLicenseError, prepare, publish
from hf_structure.models.families import FAMILIES
from hf_structure.modules.publishing import PublishingMixin

FILES = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def published(hub, name: str = "org/udgn", branch: str = "main") -> dict[str, bytes]:
    return hub.repositories[name].head(branch).files


def card_of(hub, **place) -> ModelCard:
    return ModelCard(published(hub, **place)["README.md"].decode())


def test_publish_and_load_by_name(hub, udgn, capsys):
    main(["publish", str(udgn), "org/udgn", "--license", "mit", "--language", "en"])
    assert capsys.readouterr().out.startswith(f"{hub.url}/org/udgn/commit/")
    assert set(published(hub)) == FILES
    assert hub.repositories["org/udgn"].head().large == {"model.safetensors", "tokenizer.json"}
    assert (card_of(hub).data.license, card_of(hub).data.language) == ("mit", "en")
    assert hf_structure.parse("the cat sleeps", "org/udgn") == hf_structure.parse("the cat sleeps", udgn)


def test_code_goes_up_if_it_is_wanted(hub, udgn, tmp_path, capsys):
    main(f"publish {udgn} org/udgn --license mit --code".split())
    files = set(published(hub))
    assert files > FILES
    assert {"LICENSE", "modeling_udgn.py"} <= files
    card = card_of(hub)
    assert card.data.library_name == "transformers"
    assert "trust_remote_code=True" in card.text
    parser = pipeline("dependency-parsing", model=resolve_model("org/udgn", trust_remote_code=True))
    expected = hf_structure.parse("the cat sleeps", udgn).dependency.heads
    assert parser("the cat sleeps")["dependency"]["heads"] == list(expected)
    assert set(udgn.iterdir()) == {udgn / name for name in FILES - {"README.md"}}


def test_code_beside_a_licence(capsys):
    main(["publish", "udgn-en", "org/udgn", "--code", "--dry_run"])
    output = capsys.readouterr().out
    for name in ("LICENSE\n", "LICENSE-MODEL\n", "modeling_udgn.py\n", "README.md\n"):
        assert f"  {name}" in output
    assert "license: cc-by-sa-4.0" in output


def test_parse_takes_names_revisions_and_new_commits(hub, udgn, tmp_path):
    publish(prepare(udgn, "org/udgn", "mit"))
    first = hub.repositories["org/udgn"].branches["main"]
    parse = hf_structure.parse
    before = parse("the cat sleeps", "org/udgn", marginals=True).marginals
    newer = new_parser(tmp_path / "newer")
    publish(prepare(newer, "org/udgn", "mit"))
    after = parse("the cat sleeps", "org/udgn", marginals=True).marginals
    assert after == parse("the cat sleeps", newer, marginals=True).marginals != before
    for model, revision in (("org/udgn", first), (f"org/udgn@{first}", None)):
        assert parse("the cat sleeps", model, revision=revision, marginals=True).marginals == before
    with pytest.raises(ValueError, match="revision='main' is for a model that is loaded by its name"):
        parse("the cat sleeps", UDGNForMaskedLM.from_pretrained(udgn), revision="main")


def test_command_takes_a_revision(hub, udgn, tmp_path, capsys):
    publish(prepare(udgn, "org/udgn", "mit"), revision="trial")
    text = tmp_path / "text.txt"
    text.write_text("the cat sleeps\n")
    main(["parse", "--model", "org/udgn@trial", str(text)])
    assert capsys.readouterr().out.startswith("the cat sleeps\n")
    with pytest.raises(SystemExit, match="revision 'v9'"):
        main(["parse", "--model", "org/udgn@v9", str(text)])


def test_loaded_model_finds_its_tokenizer(hub, udgn):
    publish(prepare(udgn, "org/udgn", "mit"))
    assert hf_structure.parse("the cat", UDGNForMaskedLM.from_pretrained("org/udgn")).dependency


def test_private_branch_and_message(hub, udgn):
    options = f"{udgn} org/udgn --license mit --private --revision trial --message"
    main(["publish", *options.split(), "A trial of the parser"])
    assert hub.repositories["org/udgn"].private
    assert set(published(hub, branch="trial")) == FILES
    assert not published(hub)
    assert hub.repositories["org/udgn"].head("trial").message == "A trial of the parser"


def test_dry_run_shows_what_would_go_up_and_asks_no_network(hub, udgn, capsys):
    (udgn / "training_args.bin").write_bytes(b"pickled")
    (udgn / "checkpoint-1").mkdir()
    main(["publish", str(udgn), "org/udgn", "--license", "mit", "--dry_run"])
    output = capsys.readouterr().out
    size = (udgn / "model.safetensors").stat().st_size
    assert f"{size:>13,}  model.safetensors\n" in output
    assert "license: mit" in output
    assert "training_args" not in output
    assert "checkpoint-1" not in output
    assert not hub.requests


def test_bundled_model_keeps_its_card(capsys):
    main(["publish", "udgn-en", "org/udgn", "--dry_run"])
    output = capsys.readouterr().out
    assert "license: cc-by-sa-4.0" in output
    assert "LICENSE-MODEL" in output
    assert "Unsupervised Dependency Graph Network (Shen et al. 2022) for English" in output


def test_unknown_licence_is_asked_for_on_a_terminal(hub, udgn, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "apache-2.0")
    main(["publish", str(udgn), "org/udgn"])
    assert card_of(hub).data.license == "apache-2.0"


def test_unknown_licence_is_an_error_elsewhere(hub, udgn, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(SystemExit, match="licence of this model is not known: name it \\(--license"):
        main(["publish", str(udgn), "org/udgn"])
    assert not hub.requests


def test_handwritten_card_stays_as_it_is(hub, udgn):
    (udgn / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n\nWords of my own.\n")
    publish(prepare(udgn, "org/udgn"))
    assert card_of(hub).text == "# Mine\n\nWords of my own.\n"
    publish(prepare(udgn, "org/udgn", language="de"))  # is asked for, and is added
    assert card_of(hub).text == "# Mine\n\nWords of my own.\n"
    assert card_of(hub).data.to_dict() == {"license": "mit", "language": "de"}
    assert "language" not in (udgn / "README.md").read_text()


@pytest.mark.parametrize(
    ("lost", "message"),
    [("config.json", r"there is no config\.json in it"), ("model.safetensors", "has no weights in safetensors")],
)
def test_folder_without_a_model(udgn, lost, message):
    (udgn / lost).unlink()
    with pytest.raises(ValueError, match=message):
        prepare(udgn, "org/udgn", "mit")


def test_hub_that_refuses(hub, udgn, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ValueError, match="cannot publish org/udgn: ") as caught:
        publish(prepare(udgn, "org/udgn", "mit"))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot publish a b/c: "):
        publish(prepare(udgn, "a b/c", "mit"))


def test_push_to_hub_is_never_without_a_card(hub, udgn):
    model, tokenizer = UDGNForMaskedLM.from_pretrained(udgn), AutoTokenizer.from_pretrained(udgn)
    with pytest.raises(UnknownLicenseError):
        model.push_to_hub("org/udgn")
    address = model.push_to_hub("org/udgn", license="mit", tokenizer=tokenizer, commit_message="First", token=TOKEN)
    assert address.startswith(hub.url)
    assert set(published(hub)) == FILES
    assert hub.repositories["org/udgn"].head().message == "First"
    assert "**Not for**" in card_of(hub).text
    model.push_to_hub("org/udgn", language="en")  # knows the licence from the card that is there
    assert (card_of(hub).data.license, card_of(hub).data.language) == ("mit", "en")


def test_push_to_hub_leaves_a_handwritten_card(hub, udgn):
    (udgn / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    publish(prepare(udgn, "org/udgn"))
    UDGNForMaskedLM.from_pretrained(udgn).push_to_hub("org/udgn", revision="main")
    assert card_of(hub).text == "# Mine\n"


def test_made_card_does_not_replace_a_handwritten_one(hub, udgn, tmp_path):
    (udgn / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    publish(prepare(udgn, "org/udgn"))
    publish(prepare(new_parser(tmp_path / "newer"), "org/udgn", "apache-2.0"))
    assert card_of(hub).text == "# Mine\n"
    (udgn / "README.md").write_text("---\nlicense: mit\n---\n# Mine, newer\n")
    publish(prepare(udgn, "org/udgn"))
    assert card_of(hub).text == "# Mine, newer\n"


def test_weights_under_other_names_go(hub, udgn, tmp_path):
    publish(prepare(udgn, "org/udgn", "mit"))
    model = UDGNForMaskedLM.from_pretrained(new_parser(tmp_path / "newer"))
    model.push_to_hub("org/udgn", max_shard_size="1KB", tags=["mine"])
    assert "model.safetensors" not in published(hub)
    assert "tokenizer.json" in published(hub)
    assert "mine" in card_of(hub).data.tags
    loaded = UDGNForMaskedLM.from_pretrained(resolve_model("org/udgn"))
    assert_close(loaded.state_dict(), model.state_dict())


def test_name_without_an_organisation_is_that_of_the_user(hub, udgn):
    UDGNForMaskedLM.from_pretrained(udgn).push_to_hub("udgn", license="mit")
    assert 'model="org/udgn"' in card_of(hub).text


def test_save_pretrained_that_pushes(hub, udgn, tmp_path):
    model = UDGNForMaskedLM.from_pretrained(udgn)
    model.save_pretrained(tmp_path / "saved", push_to_hub=True, repo_id="org/udgn", license="mit", private=True)
    assert (tmp_path / "saved" / "model.safetensors").exists()
    assert hub.repositories["org/udgn"].private
    assert "**Not for**" in card_of(hub).text


def test_every_family_publishes_in_this_way():
    classes = [family.load(name) for family in FAMILIES.values() for name in family.classes]
    bases = {base for each in classes for base in each.__mro__ if base.__module__.startswith("hf_structure.models.")}
    bases = [base for base in bases if base.__name__.endswith("PreTrainedModel")]
    assert len(bases) == len(FAMILIES)
    for base in bases:
        assert issubclass(base, PublishingMixin)
        assert base.push_to_hub is PublishingMixin.push_to_hub is not PreTrainedModel.push_to_hub


def test_name_of_a_file_says_whether_it_goes_up(udgn):
    for name in ("LICENSE", "modeling.py", "notes.md", "train_results.json", "trainer_state.json", "optimizer.pt"):
        (udgn / name).write_text("x")
    assert set(prepare(udgn, "org/udgn", "mit").files) == FILES - {"README.md"} | {
        "LICENSE",
        "modeling.py",
        "notes.md",
    }


def test_address_is_a_folder_of_nobody(tmp_path):
    with pytest.raises(ValueError, match="holds no model"):
        prepare(Path(tmp_path, "nothing"), "org/udgn", "mit")


STEPS = {"weights": "PUT /lfs/", "commit": "POST /api/models/org/udgn/commit/", "creation": "POST /api/repos/create"}


@pytest.fixture
def impatient(monkeypatch):
    """No waiting between attempts."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)


@pytest.mark.parametrize("step", STEPS)
def test_connection_that_is_lost_leaves_no_half_commit(step, hub, udgn, impatient):
    publish(prepare(udgn, "org/udgn", "mit"))
    before = published(hub)
    model = UDGNForMaskedLM.from_pretrained(udgn)
    model.get_input_embeddings().weight.data += 1
    model.save_pretrained(udgn)
    (udgn / "LICENSE").write_text("MIT")
    hub.unanswered = STEPS[step]
    with pytest.raises(ValueError, match=r"^cannot publish org/udgn: .*; nothing is half published: repeat it$"):
        publish(prepare(udgn, "org/udgn", "mit"))
    assert published(hub) == before
    assert len(hub.repositories["org/udgn"].commits) == 2  # with the empty one
    hub.unanswered = ""
    hub.requests.clear()
    publish(prepare(udgn, "org/udgn", "mit"))
    assert set(published(hub)) == FILES | {"LICENSE"}
    assert published(hub)["model.safetensors"] == (udgn / "model.safetensors").read_bytes()
    uploads = [request for request in hub.requests if request.startswith("PUT")]
    assert len(uploads) == (step != "commit")  # what was there before the commit is not sent again


def test_push_that_is_stopped_and_repeated(hub, udgn, monkeypatch):
    model = UDGNForMaskedLM.from_pretrained(udgn)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub._commit_api._upload_files", stop)
        with pytest.raises(KeyboardInterrupt):
            model.push_to_hub("org/udgn", license="mit", tags=["mine"])
    assert not published(hub)
    model.push_to_hub("org/udgn", license="mit", tags=["mine"])
    assert set(published(hub)) == {"README.md", "config.json", "model.safetensors"}
    assert "mine" in card_of(hub).data.tags
    commits = len(hub.repositories["org/udgn"].commits)
    files = published(hub)
    model.push_to_hub("org/udgn", license="mit", tags=["mine"])
    assert published(hub) == files
    assert len(hub.repositories["org/udgn"].commits) <= commits + 1


def test_server_at_fault_is_told_from_a_refusal(hub, udgn, impatient, monkeypatch):
    hub.is_broken = True
    with pytest.raises(ValueError, match=r"500.*; nothing is half published: repeat it$"):
        publish(prepare(udgn, "org/udgn", "mit"))
    hub.is_broken = False
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ValueError, match="cannot publish org/udgn: ") as refused:
        publish(prepare(udgn, "org/udgn", "mit"))
    assert "repeat" not in str(refused.value)
