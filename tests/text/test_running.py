"""Running text of treebanks."""

from hf_structure.text.conllu import read_conllu
from hf_structure.text.running import all_tokens, running_text, text_sentence

TREEBANK = """# newdoc
# text = Geh zum Haus.
1\tGeh\t_\t_\t_\t_\t0\troot\t_\t_
2-3\tzum\t_\t_\t_\t_\t_\t_\t_\t_
2\tzu\t_\t_\t_\t_\t4\tcase\t_\t_
3\tdem\t_\t_\t_\t_\t4\tdet\t_\t_
4\tHaus\t_\t_\t_\t_\t1\tobl\t_\tSpaceAfter=No
5\t.\t_\t_\t_\t_\t1\tpunct\t_\t_

# text = 走。
1\t走\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No
2\t。\t_\t_\t_\t_\t1\tpunct\t_\tSpaceAfter=No

# text = 10 000
1\t10 000\t_\t_\t_\t_\t0\troot\t_\t_

# newpar
1\tJa\t_\t_\t_\t_\t0\troot\t_\t_

"""


def test_text_and_ends_of_tokens():
    sentences = list(map(text_sentence, read_conllu(TREEBANK.splitlines(keepends=True))))
    assert running_text(sentences) == "Geh zum Haus. 走。10 000\n\nJa"
    for sentence in sentences:
        tokens = []
        start = 0
        for end in sentence.ends:
            tokens.append(sentence.text[start : end + 1].strip())
            start = end + 1
        assert len(tokens) == len(sentence.words)
    assert sentences[2].ends == [5]
    tokens = list(all_tokens(sentences))
    assert tokens[:3] == [("Geh", ("Geh",)), ("zum", ("zu", "dem")), ("Haus", ("Haus",))]
    assert len(tokens) == sum(len(sentence.ends) for sentence in sentences)
