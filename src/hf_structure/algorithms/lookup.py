"""
Products with rows looked up in a table, for the attention of many hypotheses over tokens that they share.

The textbook forms, [`naive.dots`] and [`naive.weighted_sum`], copy the rows first. Here nothing is copied out of the
table, which stays in the processor's cache if it is small.
"""

import warnings
from functools import cache

import torch


class Lookup:
    """Rows of a table for each of several vectors."""

    def __init__(self, index: torch.Tensor):
        self.index = index  # (batch_size, n): the rows for each vector, at least one
        self._entries: torch.Tensor | None = None

    def dots(self, vectors: torch.Tensor, table: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        """
        Dot products of each vector with its own rows of a table: `vectors[b] . table[index[b, j]]`, `(batch_size, n)`.

        Args:
            vectors (`torch.FloatTensor` of shape `(batch_size, size)`): The vectors.
            table (`torch.FloatTensor` of shape `(rows, size)`): The table.
            more (`torch.FloatTensor` of shape `(batch_size, n)` or `(batch_size, 1)`, *optional*): Summand.
        """
        more = vectors.new_zeros(()) if more is None else more
        fits = self.index.shape[1] <= len(table)  # a sparse matrix has no more entries
        if not fits or not _has_kernels(vectors, table, more):
            return (table[self.index] @ vectors.unsqueeze(-1)).squeeze(-1) + more  # (batch_size, n)
        entries = self._entries_among(len(table))
        entries.values().view(self.index.shape).copy_(more)  # (batch_size, n)
        products = torch.sparse.sampled_addmm(entries, vectors, table.T)
        return products.values().view(self.index.shape)  # (batch_size, n)

    def weighted_sums(self, weights: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """Sums `(batch_size, size)` of each vector's rows of a table, with weights `(batch_size, n)`."""
        if not _has_kernels(weights, table):
            return (weights.unsqueeze(1) @ table[self.index]).squeeze(1)  # (batch_size, size)
        return torch.nn.functional.embedding_bag(self.index, table, mode="sum", per_sample_weights=weights)

    def _entries_among(self, rows: int) -> torch.Tensor:
        """A sparse matrix `(batch_size, rows)` with an entry for each product, made once."""
        if self._entries is None or self._entries.shape[1] != rows:
            _silence_beta_warning()
            index = self.index
            self._entries = torch.sparse_csr_tensor(
                torch.arange(0, index.numel() + 1, index.shape[1]),
                index.flatten(),
                torch.zeros(index.numel(), dtype=torch.float32),
                size=(len(index), rows),
                check_invariants=False,  # rows may come in any order, and several times
            )
        return self._entries


def _has_kernels(*tensors: torch.Tensor) -> bool:
    """True if torch has fast kernels for these tensors: on CPUs, in single precision, without gradients."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    return all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


@cache
def _silence_beta_warning() -> None:
    """Swallows the warning that torch issues for the first sparse tensor of a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1, dtype=torch.float32).to_sparse_csr()
