"""
The dependency model with valence (DMV, Klein and Manning 2004), the classical baseline of grammar induction: it learns
by EM, from tags alone, which dependents words take on which side, and when they stop.

    python examples/papers/run_dmv.py --train_file train.conllu --test_file test.conllu --column xpos \\
        --random_seeds 1 2 3 4

A word generates its dependents on each side from the nearest to the farthest. Before each it chooses whether to stop,
knowing its tag, the side, and whether it has a dependent there already (valence):

    p(tree) = p(root's tag) * product over words and sides of
              product over dependents of p(go on | tag, side, valence) p(dependent's tag | tag, side)
              * p(stop | tag, side, valence)

EM maximises the likelihood of the training sentences of up to `--max_length` words. The expected counts of the E-step
are the gradient of the log-likelihood (Eisner 2016), the arcs of the best tree that of the best score. EM stays near
where it starts: "harmonic" counts arcs first by one over their length, in the spirit of the paper's initializer, and
`--random_seeds` start from random probabilities. Punctuation is removed from sentences. The table has UAS and UUAS on
all test sentences and on those of up to `--max_length` words, beside neighbours as heads.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from tqdm import tqdm

from hf_structure.cli.common import positive, run_with_options
from hf_structure.metrics.attachment import attachment_scores, left_chain, right_chain
from hf_structure.text.conllu import ConlluError, ConlluSentence, read_conllu, write_conllu
from hf_structure.text.files import new_file
from hf_structure.text.normalization import keep_mask
from hf_structure.training.comparison import markdown_table, score_cells

LEFT, RIGHT = 0, 1
STOP, GO_ON = 0, 1
NONE, SOME = 0, 1  # valence: whether a word has dependents on this side
Reduction = Callable[[torch.Tensor], torch.Tensor]  # over the first dimension


class Probabilities(NamedTuple):
    """
    Logarithms of the probabilities of T tags, or what is counted of them.

    Args:
        root (`torch.Tensor` of shape `(T,)`): Of the root's tag.
        choice (`torch.Tensor` of shape `(T, 2, 2, 2)`): To stop or to go on, by tag, side and valence.
        dependent (`torch.Tensor` of shape `(T, 2, T)`): Of a dependent's tag, by the head's tag and the side.
    """

    root: torch.Tensor
    choice: torch.Tensor
    dependent: torch.Tensor

    def of_words(self, tags: torch.Tensor) -> "Scores":
        """Terms that the words of sentences `(batch, n)` add to the log-probabilities of their trees."""
        n = tags.shape[1]
        heads = tags[:, :, None].expand(-1, -1, n)  # (batch, head, dependent)
        dependents = tags[:, None, :].expand(-1, n, -1)
        position = torch.arange(n)
        side = (position[:, None] < position).long()  # LEFT or RIGHT, (head, dependent)
        return Scores(self.root[tags], self.choice[tags], self.dependent[heads, side, dependents])


class Scores(NamedTuple):
    """
    Parts of the log-probabilities of the trees of sentences of n words.

    Args:
        root (`torch.Tensor` of shape `(batch, n)`): Of the root.
        choice (`torch.Tensor` of shape `(batch, n, 2, 2, 2)`): Of stopping or going on, by word, side and valence.
        arc (`torch.Tensor` of shape `(batch, n, n)`): Of an arc from a head (second dimension) to a dependent.
    """

    root: torch.Tensor
    choice: torch.Tensor
    arc: torch.Tensor


def inside(scores: Scores, reduce: Reduction) -> torch.Tensor:
    """
    The inside algorithm with split heads (Eisner 1996) and valence, `(batch,)`: of all projective trees with one root
    the sum, if `reduce` is a log-sum, or the best, if it is a maximum. A tree has one derivation.

    A half is a word with dependents on one side. Charts are by side and width, `[side][width]` is `(batch, starts)`: a
    right half starts at its head, a left half ends there.
    """
    n = scores.root.shape[1]
    closed = ([], [])  # halves whose head has stopped
    going = ([], [])  # halves whose head goes on
    links = ([None], [None])  # spans of a head and a dependent at their ends
    for width in range(n):
        ends = slice(width, n)
        starts = slice(0, n - width)
        for side, heads in ((LEFT, ends), (RIGHT, starts)):
            if width == 0:
                half = torch.zeros_like(scores.root)
            else:
                pair = (closed[RIGHT], going[LEFT]) if side == LEFT else (going[RIGHT], closed[LEFT])
                arc = scores.arc.diagonal(width if side == RIGHT else -width, dim1=1, dim2=2)  # (batch, starts)
                links[side].append(reduce(_sums(*pair, range(width), width, gap=1)) + arc)
                pair = (closed[LEFT], links[LEFT]) if side == LEFT else (links[RIGHT], closed[RIGHT])
                half = reduce(_sums(*pair, range(width) if side == LEFT else range(1, width + 1), width, gap=0))
            choice = scores.choice[:, heads, side, SOME if width else NONE]  # (batch, starts, 2)
            closed[side].append(half + choice[..., STOP])
            going[side].append(half + choice[..., GO_ON])
    trees = [scores.root[:, r] + closed[LEFT][r][:, 0] + closed[RIGHT][n - 1 - r][:, r] for r in range(n)]
    return reduce(torch.stack(trees))  # (batch,)


def _sums(first: list, second: list, splits: Sequence[int], width: int, gap: int) -> torch.Tensor:
    """All ways to make spans of a width of two that have `gap` between their ends, `(splits, batch, starts)`."""
    ways = []
    for split in splits:
        start = split + gap
        right = second[width - start][:, start:]  # (batch, starts)
        ways.append(first[split][:, : right.shape[1]] + right)
    return torch.stack(ways)


def log_sum(values: torch.Tensor) -> torch.Tensor:
    return values.logsumexp(0)


def maximum(values: torch.Tensor) -> torch.Tensor:
    return values.max(0).values


def expect(model: Probabilities, batches: list[torch.Tensor], by_length: bool = False) -> tuple[Probabilities, float]:
    """
    The E-step: expected counts of everything that the model has a probability of, and the log-likelihood. `by_length`
    divides the weight of an arc by its length.
    """
    model = Probabilities(*(table.clone().requires_grad_() for table in model))
    counts = [torch.zeros_like(table) for table in model]
    total = 0.0
    for tags in batches:
        scores = model.of_words(tags)
        if by_length:
            position = torch.arange(tags.shape[1])
            length = (position[:, None] - position).abs().clamp(min=1)
            scores = scores._replace(arc=scores.arc - length.log())
        likelihood = inside(scores, log_sum).sum()
        for table, gradient in zip(
            counts, torch.autograd.grad(likelihood, model, materialize_grads=True), strict=True
        ):
            table += gradient
        total += likelihood.item()
    return Probabilities(*counts), total


def maximise(counts: Probabilities, smoothing: float) -> Probabilities:
    """The M-step: shares of the counts, with something added to each."""
    smoothed = [table + smoothing for table in counts]
    return Probabilities(*(table.log() - table.sum(-1, keepdim=True).log() for table in smoothed))


def train(start: Probabilities, batches: list[torch.Tensor], args: argparse.Namespace, title: str) -> Probabilities:
    """EM until an iteration gains less than `--tolerance` of the log-likelihood."""
    model = start
    before = None
    progress = tqdm(range(args.max_iterations), desc=title, unit=" iterations")
    for _ in progress:
        counts, likelihood = expect(model, batches)
        progress.set_postfix_str(f"log-likelihood {likelihood:,.0f}")
        if before is not None and likelihood - before < args.tolerance * abs(before):
            break
        before = likelihood
        model = maximise(counts, args.smoothing)
    return model


def best_heads(model: Probabilities, tags: torch.Tensor) -> torch.Tensor:
    """Heads of the best trees of sentences `(batch, n)`, from 1, 0 of the root."""
    scores = model.of_words(tags)
    root = scores.root.detach().requires_grad_()
    arc = scores.arc.detach().requires_grad_()
    best = inside(Scores(root, scores.choice, arc), maximum).sum()
    of_root, of_arcs = torch.autograd.grad(best, (root, arc), materialize_grads=True)
    return torch.cat((of_root[:, None], of_arcs), 1).argmax(1)  # (batch, head, dependent) -> (batch, dependent)


def read(path: str, column: str) -> list[ConlluSentence]:
    """Sentences without punctuation. Raises `ConlluError` where a word has no tag or head."""
    sentences = []
    for sentence in read_conllu(path):
        named = sentence.to_sentence()
        sentence = sentence.keep_words(keep_mask(named["words"], named["tags"], named["deprels"]))
        if sentence.words:
            if sentence.heads is None:
                raise ConlluError("a sentence without heads cannot be scored", path, sentence.line)
            if "_" in tags_of(sentence, column):
                raise ConlluError(f"a word has no {column.upper()}: choose another --column", path, sentence.line)
            sentences.append(sentence)
    return sentences


def tags_of(sentence: ConlluSentence, column: str) -> list[str]:
    return [getattr(word, column) for word in sentence.words]


def groups_of_one_length(tags: list[list[int]]) -> Collection[list[int]]:
    """Indices of the sentences of each length, which make one tensor."""
    groups = defaultdict(list)
    for number, sentence in enumerate(tags):
        groups[len(sentence)].append(number)
    return groups.values()


def parse(model: Probabilities, tags: list[list[int]]) -> list[list[int]]:
    """Heads of every sentence."""
    heads = [[]] * len(tags)
    for group in tqdm(groups_of_one_length(tags), desc="parsing", unit=" lengths"):
        found = best_heads(model, torch.tensor([tags[number] for number in group]))
        for number, sentence in zip(group, found.tolist(), strict=True):
            heads[number] = sentence
    return heads


def scores_of(heads: list[list[int]], test: list[ConlluSentence], max_length: int) -> dict[str, float]:
    """UAS and UUAS, of all sentences and of the short ones."""
    results = {}
    for name, limit in (("", float("inf")), ("short_", max_length)):
        pairs = [(found, one.heads) for found, one in zip(heads, test, strict=True) if len(found) <= limit]
        if pairs:
            scores = attachment_scores(*zip(*pairs, strict=True))
            results |= {f"test_{name}uas": scores.uas, f"test_{name}uuas": scores.uuas}
    return results


def run(args: argparse.Namespace) -> None:
    training = [one for one in read(args.train_file, args.column) if len(one.words) <= args.max_length]
    if not training:
        raise ValueError(f"{args.train_file} has no sentence of up to {args.max_length} words")
    test = read(args.test_file, args.column)
    if not test:
        raise ValueError(f"{args.test_file} has no sentence")
    known = sorted({tag for sentence in (*training, *test) for tag in tags_of(sentence, args.column)})
    numbers = {tag: number for number, tag in enumerate(known)}
    short = [[numbers[tag] for tag in tags_of(sentence, args.column)] for sentence in training]
    tags = [[numbers[tag] for tag in tags_of(sentence, args.column)] for sentence in test]
    batches = [torch.tensor([short[number] for number in group]) for group in groups_of_one_length(short)]
    print(f"{len(training):,} training sentences of up to {args.max_length} words, {len(numbers)} tags")

    size = len(numbers)
    nothing = Probabilities(*(torch.zeros(shape).double() for shape in ((size,), (size, 2, 2, 2), (size, 2, size))))
    uniform = maximise(nothing, smoothing=1.0)
    counts, _ = expect(uniform, batches, by_length=True)
    starts = {"harmonic": [maximise(counts, args.smoothing)], "random": []}
    for seed in args.random_seeds:
        torch.manual_seed(seed)
        starts["random"].append(Probabilities(*(torch.randn_like(table).log_softmax(-1) for table in nothing)))

    systems = {
        "left neighbour as head": [[left_chain(len(sentence)) for sentence in tags]],
        "right neighbour as head": [[right_chain(len(sentence)) for sentence in tags]],
    }
    for name, models in starts.items():
        systems[f"DMV, {name}"] = [parse(train(start, batches, args, name), tags) for start in models]
    if args.output:
        trees = zip(test, systems["DMV, harmonic"][0], strict=True)
        with new_file(args.output, args.overwrite) as file:
            write_conllu((sentence.with_heads(heads) for sentence, heads in trees), file)
    names = ("uas", "uuas", "short_uas", "short_uuas")
    titles = ("UAS", "UUAS", f"UAS, up to {args.max_length} words", f"UUAS, up to {args.max_length} words")
    rows = [
        [title, *score_cells([scores_of(heads, test, args.max_length) for heads in found], names)]
        for title, found in systems.items()
        if found
    ]
    print(markdown_table(("", "runs", *titles), rows))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", required=True, metavar="FILE", help="CoNLL-U, with tags")
    parser.add_argument("--test_file", required=True, metavar="FILE", help="CoNLL-U, with tags and heads")
    parser.add_argument("--column", choices=("upos", "xpos"), default="upos", help="of the tags; default: upos")
    parser.add_argument("--max_length", type=positive, default=10, help="of training sentences; default: 10 words")
    parser.add_argument("--random_seeds", type=int, nargs="+", default=[], metavar="SEED", help="default: none")
    parser.add_argument("--smoothing", type=float, default=0.1, help="added to every count; default: 0.1")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="share of the likelihood; default: 1e-5")
    parser.add_argument("--max_iterations", type=positive, default=200, help="of EM; default: 200")
    parser.add_argument("--output", metavar="FILE", help="CoNLL-U for the trees of the harmonic start")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")
    run_with_options(parser, run, arguments)


if __name__ == "__main__":
    main()
