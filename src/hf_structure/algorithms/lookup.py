"""
Products with rows of a table that are looked up, as attention of many hypotheses over the tokens that they share needs
them: nothing is copied out of the table, which stays in the processor's cache where it is small.
"""

import warnings
from functools import cache

import torch


class Lookup:
    """
    Rows of a table for each of some vectors.

    Args:
        index (`torch.LongTensor` of shape `(batch_size, n)`): Rows for each vector, at least one.
    """

    def __init__(self, index: torch.Tensor):
        self.index = index
        self._places: torch.Tensor | None = None

    def dots(self, vectors: torch.Tensor, table: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        """
        Products of each vector with its own rows of a table.

        Args:
            vectors (`torch.FloatTensor` of shape `(batch_size, size)`): The vectors.
            table (`torch.FloatTensor` of shape `(rows, size)`): The table.
            more (`torch.FloatTensor` of shape `(batch_size, n)` or `(batch_size, 1)`, *optional*): What is added.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, n)`: `[b, j]` is `vectors[b] . table[index[b, j]]`.
        """
        more = vectors.new_zeros(()) if more is None else more
        if not _has_kernels(vectors, table, more) or self.index.shape[1] > len(table):  # a matrix has no more places
            return (table[self.index] @ vectors.unsqueeze(-1)).squeeze(-1) + more
        places = self._places_among(len(table))
        places.values().view(self.index.shape).copy_(more)
        return torch.sparse.sampled_addmm(places, vectors, table.T).values().view(self.index.shape)

    def weighted_sums(self, weights: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """
        Sums of rows of a table.

        Args:
            weights (`torch.FloatTensor` of shape `(batch_size, n)`): Weights of the rows.
            table (`torch.FloatTensor` of shape `(rows, size)`): The table.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, size)`.
        """
        if not _has_kernels(weights, table):
            return (weights.unsqueeze(1) @ table[self.index]).squeeze(1)
        return torch.nn.functional.embedding_bag(self.index, table, mode="sum", per_sample_weights=weights)

    def _places_among(self, rows: int) -> torch.Tensor:
        """The products that are asked for, as the places of a sparse matrix `(batch_size, rows)`, kept."""
        if self._places is None or self._places.shape[1] != rows:
            _say_once_that_it_is_beta()
            index = self.index
            self._places = torch.sparse_csr_tensor(
                torch.arange(0, index.numel() + 1, index.shape[1]),
                index.flatten(),
                torch.zeros(index.numel(), dtype=torch.float32),
                size=(len(index), rows),
                check_invariants=False,  # rows may come in any order, and several times
            )
        return self._places


def _has_kernels(*tensors: torch.Tensor) -> bool:
    """Whether torch has fast kernels for this; they are for processors, and know no half precision."""
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    types = {tensor.dtype for tensor in tensors}
    return not needs_gradient and types <= {torch.float32} and all(tensor.device.type == "cpu" for tensor in tensors)


@cache
def _say_once_that_it_is_beta() -> None:
    """Takes the warning that torch gives with the first sparse tensor of a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1, dtype=torch.float32).to_sparse_csr()


__all__ = ["Lookup"]
