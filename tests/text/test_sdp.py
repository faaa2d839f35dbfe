import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.text.sdp import SdpError, SdpSentence, read_sdp, write_sdp

TEXT = """\
#SDP 2015
#22000001
1\tDogs\tdog\tNNS\t-\t-\t_\tARG1\t_
2\tthat\tthat\tWDT\t-\t-\t_\t_\t_
3\tbark\tbark\tVBP\t-\t+\tv:e-i\t_\t_
4\tbite\tbite\tVBP\t+\t+\tv:e-i-p\t_\t_

"""


def parse(text):
    return list(read_sdp(io.StringIO(text)))


def test_fields():
    (sentence,) = parse(TEXT)
    assert sentence.id == "22000001"
    assert sentence.words == ["Dogs", "that", "bark", "bite"]
    assert (sentence.lemmas[3], sentence.pos[1]) == ("bite", "WDT")
    assert sentence.frames == ["_", "_", "v:e-i", "v:e-i-p"]
    assert sentence.tops == [4]
    assert sentence.predicates == [3, 4]
    assert sentence.arcs == [(3, 1, "ARG1")]


def test_bytes_come_back(tmp_path):
    source, target = tmp_path / "in.sdp", tmp_path / "out.sdp"
    source.write_text(TEXT + TEXT.removeprefix("#SDP 2015\n"))
    assert write_sdp(read_sdp(source), target) == 2
    assert target.read_bytes() == source.read_bytes()


@st.composite
def sentences(draw):
    length = draw(st.integers(1, 5))
    fields = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
    columns = [draw(st.lists(fields, min_size=length, max_size=length)) for _ in range(4)]
    pairs = draw(
        st.sets(st.tuples(st.integers(1, length), st.integers(1, length)).filter(lambda arc: arc[0] != arc[1]))
    )
    arcs = sorted((*pair, draw(fields.filter(lambda label: label != "_"))) for pair in pairs)
    predicates = sorted({head for head, _, _ in arcs} | draw(st.sets(st.integers(1, length))))
    tops = sorted(draw(st.sets(st.integers(1, length))))
    return SdpSentence("1", *columns[:3], tops, columns[3], arcs, predicates)


@settings(deadline=None)
@given(st.lists(sentences(), max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_write_and_read_any_graphs(written, newline):
    file = io.StringIO()
    assert write_sdp(written, file) == len(written)
    assert parse(file.getvalue().replace("\n", newline)) == written


ROW = "1\ta\ta\tX\t-\t-\t_"
MALFORMED = {
    "no id": (ROW, ":1: a sentence without its #id line"),
    "no words": ("#1", ":1: a sentence without words"),
    "few columns": ("#1\n1\ta", ":2: 2 tab-separated columns, at least 7"),
    "many columns": (f"#1\n{ROW}\tARG1", ":2: 8 tab-separated columns instead of 7 \\+ 0 predicates"),
    "order": (f"#1\n{ROW}\n{ROW}", ":3: word '1' where 2 should come"),
    "empty form": ("#1\n1\t\ta\tX\t-\t-\t_", ":2: column 2 is empty"),
    "empty label": (f"#1\n{ROW.replace('-', '+')}\t\t_", ":2: column 8 is empty"),
    "own argument": (f"#1\n{ROW}\t_\n2\tb\tb\tX\t-\t+\t_\tARG1", ":3: word 2 is its own argument"),
    "id of many digits": (f"#1\n{'9' * 5000}{ROW}", ":2: word '999"),
    "mark": ("#1\n1\ta\ta\tX\tx\t-\t_", ":2: TOP and PRED"),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_input(text, message):
    with pytest.raises(SdpError, match=message):
        parse(text)
