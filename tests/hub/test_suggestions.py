from hf_structure.hub.suggestions import did_you_mean, with_suggestions


def test_names_like_unknown_ones():
    known = ["hidden_size", "num_hidden_layers", "vocab_size"]
    assert did_you_mean("num_layers", known) == " (did you mean num_hidden_layers?)"
    assert did_you_mean("xyz", known) == ""
    assert did_you_mean("UDGN-EN", ["udgn-en", "UDGN-Fr"]) == " (did you mean udgn-en or UDGN-Fr?)"
    assert with_suggestions(["hiden_size", "xyz"], iter(known)) == "hiden_size (did you mean hidden_size?), xyz"
