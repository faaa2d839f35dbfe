"""
Adds enhanced dependencies to English trees by rule, so that models can be trained on graphs of any parsed text.

The rules follow enhanced Universal Dependencies (universaldependencies.org/u/overview/enhanced-syntax.html;
Schuster and Manning 2016) as far as trees determine them, in the conventions of GUM:

1. Cases and markers: `obl`, `nmod`, `advcl`, `acl` and `conj` get their marking words, `nmod:of`, `conj:and`.
2. Conjuncts share the head of the first conjunct, unless it is the root or a parataxis.
3. Conjuncts without a subject share the first conjunct's; they share an object that follows them all.
4. The subject of an open complement is the object of the verb above it, or else its subject (`nsubj:xsubj`).
5. Relative clauses: their noun replaces the relative pronoun, which becomes its `ref`.

Elided predicates, which need empty nodes, are not restored. The rules read only relations and forms, so that the
output of a parser without tags will do.
"""

from collections.abc import Iterator

from hf_structure.text.conllu import ConlluSentence, ConlluToken
from hf_structure.text.graphs import enhanced_heads, words_above

MARKED = {"obl": "case", "nmod": "case", "advcl": "mark", "acl": "mark"}
NAMES = {"&": "and", "/": "slash", "+": "plus", "-": "minus", "–": "to", "cause": "because", "'cause": "because"}
POSSESSIVES = frozenset(["'s", "’s", "'", "’"])  # never part of a relation's name
ADVERBS = frozenset(["when", "where", "how", "why", "whenever", "wherever"])  # that mark clauses
RELATIVES = frozenset(["that", "which", "who", "whom", "whose", "where", "when", "why"])
UNSHARED = ("root", "parataxis")
SUBJECTS = ("nsubj", "csubj")
CONTROLLERS = ("iobj", "obj", "nsubj")  # of open complements, in order of preference

Arc = tuple[int, str]  # the head of a word, 0 for the root, and the relation


def enhance(sentence: ConlluSentence) -> ConlluSentence:
    """
    Returns the sentence with the enhanced graph of its tree in DEPS, replacing any old graph and its empty nodes.
    Raises `ValueError` if a word has no head.
    """
    graph = _Graph(sentence)
    deps = ("|".join(f"{head}:{label}" for head, label in sorted(arcs)) for arcs in graph.arcs[1:])
    return sentence.with_deps(list(deps))


def labelled_arcs(sentence: ConlluSentence) -> set[tuple[int, int, str]]:
    """
    The arcs in DEPS, `(head, dependent, relation)`, words from 1. Dependents of empty nodes move to the nodes' heads.
    """
    heads = enhanced_heads(sentence)
    arcs = set()
    for word in sentence.words:
        for head, label in heads[word.id]:
            arcs |= {(above, int(word.id), label) for above in words_above(head, heads)}
    return {arc for arc in arcs if arc[0] != arc[1]}


def basic_arcs(sentence: ConlluSentence) -> set[tuple[int, int, str]]:
    """The arcs of the tree, in the format of [`labelled_arcs`]."""
    return {(int(word.head), int(word.id), word.deprel) for word in sentence.words}


class _Graph:
    """The enhanced graph of a sentence: `arcs`, a set for each word, from 1."""

    def __init__(self, sentence: ConlluSentence):
        if sentence.heads is None:
            raise ValueError(f"a sentence without heads cannot be enhanced: {' '.join(sentence.forms)}")
        self.words = [ConlluToken("0", "<root>"), *sentence.words]
        self.heads = [-1, *sentence.heads]
        self.children: list[list[int]] = [[] for _ in self.words]
        for word, head in enumerate(self.heads[1:], start=1):
            self.children[head].append(word)
        self.arcs = [set(), *({(head, self._label(word))} for word, head in enumerate(self.heads[1:], start=1))]
        self._apply_rules()

    def _apply_rules(self) -> None:
        # Heads first: a conjunct shares what its head has got from its own head.
        order = list(self._from_the_root())
        conjuncts = [word for word in order if self.relation(word) == "conj"]
        clauses = [word for word in order if self.words[word].deprel == "acl:relcl"]
        rules = ((self._share_head, conjuncts), (self._share_dependents, conjuncts))
        for rule, words in (*rules, (self._control, order), (self._refer, clauses)):
            for word in words:
                rule(word)

    def relation(self, word: int) -> str:
        """The relation to the head in the tree, without its subtype."""
        return self.words[word].deprel.partition(":")[0]

    def form(self, word: int) -> str:
        form = self.words[word].form.lower()
        return NAMES.get(form, form)

    def _from_the_root(self) -> Iterator[int]:
        """All words, heads before dependents; words on a cycle are skipped."""
        waiting = [0]
        while waiting:
            word = waiting.pop()
            if word:
                yield word
            waiting += reversed(self.children[word])

    def _having(self, word: int, *relations: str) -> list[int]:
        """The dependents of a word with one of these relations, in any subtype."""
        return [child for child in self.children[word] if self.relation(child) in relations]

    # 1. Cases and markers

    def _label(self, word: int) -> str:
        deprel = self.words[word].deprel
        if deprel == "conj":
            markers = self._conjunction(word)
        elif deprel in MARKED:
            markers = self._having(word, MARKED[deprel]) or self._adverb(word)
        else:
            return deprel
        name = self._names(markers)
        return f"{deprel}:{name}" if name else deprel

    def _names(self, markers: list[int]) -> str:
        """Joins markers with all words of their fixed expressions: `for_to`, `out_of`."""
        parts = [self.form(part) for marker in markers for part in [marker, *self._having(marker, "fixed")]]
        return "_".join(part for part in parts if part not in POSSESSIVES)

    def _adverb(self, word: int) -> list[int]:
        """The adverb that introduces an adverbial clause, such as `when`; a list of one word or none."""
        if self.relation(word) != "advcl":
            return []
        return [child for child in self._having(word, "advmod")[:1] if self.form(child) in ADVERBS and child < word]

    def _conjunction(self, word: int) -> list[int]:
        """The conjunction of this conjunct, or of the next one that has one: `a, b and c`."""
        later = [child for child in self._having(self.heads[word], "conj") if child >= word]
        for conjunct in later:
            if found := self._having(conjunct, "cc"):
                return found[:1]
        return []

    # 2. and 3. Conjuncts

    def _share_head(self, word: int) -> None:
        first = self.heads[word]
        for head, label in set(self.arcs[first]):
            plain, _, marker = label.partition(":")
            if plain in UNSHARED or head == word:
                continue
            # A conjunct with a marker of its own keeps it: `in Rome and at sea` are `obl:in` and `obl:at`.
            if plain in MARKED and marker and self.words[first].deprel == plain:
                own = self._names(self._having(word, MARKED[plain]))
                label = f"{plain}:{own}" if own else label
            self.arcs[word].add((head, plain if plain == "conj" else label))

    def _share_dependents(self, word: int) -> None:
        first = self.heads[word]
        if not self._having(word, *SUBJECTS, "expl"):
            for subject in self._having(first, *SUBJECTS):
                self._add(subject, word, self._voiced(self.words[subject].deprel, word))
        if not self._having(word, "obj"):
            for shared in self._having(first, "obj"):
                if shared > word:
                    self._add(shared, word, self.words[shared].deprel)

    def _voiced(self, label: str, verb: int) -> str:
        """The relation of a subject to a verb that may be passive: `nsubj:pass`."""
        is_passive = any(self.words[child].deprel == "aux:pass" for child in self.children[verb])
        return "nsubj:pass" if label == "nsubj" and is_passive else label

    def _add(self, dependent: int, head: int, label: str) -> None:
        if dependent != head:
            self.arcs[dependent].add((head, label))

    # 4. Open complements

    def _control(self, word: int) -> None:
        if self._having(word, *SUBJECTS):
            return
        verbs = [head for head, label in self.arcs[word] if label.partition(":")[0] == "xcomp"]
        for controller in {each for verb in verbs for each in self._controllers(verb)}:
            self._add(controller, word, self._voiced("nsubj", word) + ":xsubj")

    def _controllers(self, verb: int) -> list[int]:
        """The object of a verb, or else its subjects, including those that it shares."""
        for relation in CONTROLLERS:
            found = [
                word
                for word, arcs in enumerate(self.arcs)
                if any(head == verb and label.partition(":")[0] == relation for head, label in arcs)
            ]
            if found:
                return found
        return []

    # 5. Relative clauses

    def _refer(self, clause: int) -> None:
        noun = self.heads[clause]
        pronoun = self._relative_pronoun(clause)
        if not noun or pronoun is None:
            return
        relation = self.words[pronoun].deprel
        for head, label in self.arcs[pronoun]:
            if not label.endswith(":xsubj"):
                self._add(noun, head, "obl" if relation == "advmod" else label)
        kept = self.arcs[pronoun] if relation in ("advmod", "nmod:poss") else ()
        self.arcs[pronoun] = {(noun, "ref"), *kept}

    def _relative_pronoun(self, clause: int) -> int | None:
        """The first relative pronoun in the clause before its predicate; None if there is none."""
        waiting = [clause]
        found = []
        while waiting:
            word = waiting.pop()
            if word < clause and self.form(word) in RELATIVES and self.relation(word) not in ("mark", "det", "cc"):
                found.append(word)
            waiting += [child for child in self.children[word] if self.words[child].deprel != "acl:relcl"]
        return min(found, default=None)
