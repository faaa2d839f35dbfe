"""
Chu-Liu/Edmonds by contraction, exactly one root word, for a batch of sentences in lock-step (numpy only).

The simple form, for the graph of the words and the root (Edmonds 1967):

    def best_tree(graph):
        choose the best arc into every node but the root
        if there is no cycle: return the arcs
        contract a cycle C into one node c:
            an arc u -> v into C becomes u -> c with score(u -> v) - score(best arc into v)
            an arc out of C becomes one out of c
        tree = best_tree(contracted graph)
        return tree, with the arcs of C except for that into the word which the arc into c enters
"""

import numpy as np

# Positions of words that are not on the path; a word on it has the depth of its node.
UNVISITED = -1
FINISHED = -2


class Contraction:
    """
    Best single-root tree of every sentence, O(n^2) time and memory each.

    A path grows from any word: the best arc into its last node comes from the next one. When that arc comes from the
    path itself, the cycle is contracted into one node. A node's row holds the best score from every head into it, and
    the word which that arc enters, so the row of a contracted node is the elementwise maximum of its parts' rows.
    Scores in a row are relative to its best arc, the one to be given up if another enters the node.

    One root: subtracting a constant larger than the range of all tree scores from every root arc means that a node
    takes its root arc only when no word can be its head. That is done here literally, without a constant that costs
    precision: a node that no finite arc enters any more, usually the whole sentence, takes the root, once.

    Args:
        arcs (`np.ndarray` of shape `(batch, n, n + 1)`): Float64 scores; -inf at self arcs, padding, forbidden arcs.
        lengths (`np.ndarray` of shape `(batch,)`): Words of each sentence.
    """

    def __init__(self, arcs: np.ndarray, lengths: np.ndarray):
        batch, n, _ = arcs.shape
        self.n = n
        best = arcs[:, :, 1:].max(-1)
        has_head = best > -np.inf
        # One row for each node, at the index of its first word: nodes are numbered by sentence * n + first word.
        self.scores = (arcs - np.where(has_head, best, 0)[..., None]).reshape(batch * n, n + 1)
        self.entered = np.repeat(np.tile(np.arange(n), batch), n + 1).reshape(batch * n, n + 1)  # (batch * n, n + 1)
        self.heads = np.where(has_head, arcs[:, :, 1:].argmax(-1) + 1, 0)  # contracted nodes may overrule them
        self.visited = np.zeros(batch * n, dtype=np.int64)  # step in which each word was pushed on the path
        self.choices: list[tuple[np.ndarray, ...]] = []  # sentence, interval of steps, head, word entered
        self.step = 0

        self.path = np.zeros((batch, n), dtype=np.int64)  # nodes
        self.position = np.where(np.arange(n + 1) <= lengths[:, None], UNVISITED, FINISHED)
        self.position[:, 0] = FINISHED
        self.head = np.ones(batch, dtype=np.int64)  # of the path's last node: what to look at next
        self.depth = np.full(batch, -1)  # of the path's last node
        self.solved = np.ones(batch, dtype=bool)
        self.rooted = np.zeros(batch, dtype=bool)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Heads of shape `(batch, n)` (of no meaning in padding), and whether each sentence has a tree, `(batch,)`."""
        active = np.flatnonzero(self.position[:, 1] == UNVISITED)
        while len(active):
            new = active
            while len(new := new[self.position[new, self.head[new]] == UNVISITED]):
                self._push(new)
            position = self.position[active, self.head[active]]
            if len(cyclic := active[position >= 0]):
                self._contract(cyclic, position[position >= 0])
            if len(finished := active[position == FINISHED]):
                self._restart(finished)
                active = active[(self.head[active] > 0) | (self.depth[active] >= 0)]
        self._expand()
        return self.heads, self.solved

    def _push(self, new: np.ndarray) -> None:
        """Lengthens the path by the head of its last node, a word not seen before."""
        word = self.head[new]
        node = new * self.n + word - 1
        self.depth[new] += 1
        self.path[new, self.depth[new]] = node
        self.position[new, word] = self.depth[new]
        self.visited[node] = self.step
        self.step += 1
        self.head[new] = self.heads.take(node)

    def _contract(self, cyclic: np.ndarray, start: np.ndarray) -> None:
        """Makes the end of the path, from depth `start`, one node, and chooses the best arc into that."""
        index = np.arange(len(cyclic))
        end = self.depth[cyclic]
        most_parts = (end - start).max() + 1
        depths = np.minimum(start[:, None] + np.arange(most_parts), end[:, None])  # the last one repeats
        parts = self.path[cyclic[:, None], depths]  # (cyclic, parts)
        best_part = self.scores[parts].argmax(1)  # (cyclic, n + 1)
        rows = parts[index[:, None], best_part]  # (cyclic, n + 1)
        indices = rows * (self.n + 1) + np.arange(self.n + 1)
        scores = self.scores.take(indices)  # (cyclic, n + 1)
        entered = self.entered.take(indices)  # (cyclic, n + 1)

        position = np.minimum(self.position[cyclic], start[:, None])
        scores[position == start[:, None]] = -np.inf  # arcs within the node
        head = scores[:, 1:].argmax(1) + 1
        best = scores[index, head]
        closed = best == -np.inf  # no word can be its head: it takes the root
        head[closed] = 0
        best[closed] = 0

        node = parts[:, 0]
        self.scores[node] = scores - best[:, None]
        self.entered[node] = entered
        self.position[cyclic] = position
        self.depth[cyclic] = start
        self.head[cyclic] = head
        self.choices.append((cyclic, self.visited[node], np.full_like(node, self.step), head, entered[index, head]))

    def _restart(self, finished: np.ndarray) -> None:
        """Removes a path that has reached the root and starts another at an unvisited word, if there is one."""
        root = finished[self.head[finished] == 0]
        score = self.scores[self.path[root, self.depth[root]], 0]
        self.solved[root] &= (score > -np.inf) & ~self.rooted[root]
        self.rooted[root] = True
        position = self.position[finished]
        position[position >= 0] = FINISHED
        self.position[finished] = position
        self.depth[finished] = -1
        self.head[finished] = (position == UNVISITED).argmax(1)  # 0 if all are visited

    def _expand(self) -> None:
        """
        Undoes the contractions, the last one first.

        The arc into a contracted node breaks its cycle at the word it enters: choices made before for smaller nodes
        with that word do not count. The words of a node are those visited in an interval of steps.
        """
        if not self.choices:
            return
        columns = (np.concatenate(column)[::-1] for column in zip(*self.choices, strict=True))
        sentences, starts, ends, heads, entered = columns
        visited = self.visited[sentences * self.n + entered]
        broken = [bytearray(self.step) for _ in self.heads]  # 1 in the steps of words that have got a head
        counts = np.zeros(len(sentences), dtype=bool)
        intervals = zip(sentences.tolist(), starts.tolist(), ends.tolist(), visited.tolist(), strict=True)
        for choice, (sentence, start, end, step) in enumerate(intervals):
            if broken[sentence].find(1, start, end) < 0:
                broken[sentence][step] = 1
                counts[choice] = True
        self.heads[sentences[counts], entered[counts]] = heads[counts]


def best_trees(arcs: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best heads `(batch, n)`, -1 in padding, of masked float64 scores, and whether there is a tree, `(batch,)`."""
    heads = arcs.argmax(-1)
    solved = np.ones(len(arcs), dtype=bool)
    search = np.flatnonzero(~_are_trees(heads, arcs, lengths))  # all words' best heads are optimal if they are a tree
    if len(search):
        heads[search], solved[search] = Contraction(arcs[search], lengths[search]).run()
    return np.where(np.arange(heads.shape[1]) < lengths[:, None], heads, -1), solved


def _are_trees(heads: np.ndarray, arcs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """True for one root, no forbidden head, and a path along the heads from every word to the root."""
    batch, n = heads.shape
    words = np.arange(n) < lengths[:, None]
    above = np.zeros((batch, n + 1), dtype=np.int64)
    np.copyto(above[:, 1:], heads, where=words)
    sentence = np.arange(batch)[:, None] * (n + 1)
    for _ in range(n.bit_length()):
        above = above.take(above + sentence)  # the head's head, then the head's head's head's head, ...
    one_root = ((heads == 0) & words).sum(1) == (lengths > 0)
    allowed = ((arcs.max(-1) > -np.inf) | ~words).all(1)
    return one_root & allowed & ~above.any(1)
