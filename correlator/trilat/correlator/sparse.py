"""Sums kept for a few of many keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrays import Int32s, Int64s

__all__ = ["SparseSums", "run_sizes", "run_starts"]

_LOOSE_MIN = 1024
_LOOSE_TIMES = 4


def run_starts(keys: Int32s) -> npt.NDArray[np.intp]:
    """Where each run of equal keys begins."""
    if not keys.size:
        return np.zeros(0, np.intp)
    begins = np.empty(keys.size, np.bool_)
    begins[0] = True
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def run_sizes(starts: npt.NDArray[np.intp], total: int) -> npt.NDArray[np.intp]:
    """How long the runs are that begin at ``starts``, the last one ending at ``total``."""
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[-1:] = total
    return ends - starts


class SparseSums:
    """Integer sums for a sparse set of integer keys; adding is exact in whatever order.

    What is added is set aside and merged later, when it is read or has outgrown what is merged
    already, so that each key is sorted a few times only however often something is added.
    No array is ever changed in place, so sums may share them.

    Args:
        keys: shape (k,), ascending, each once.
        sums: shape (…, k).
    """

    __slots__ = ("_loose", "_pieces")

    def __init__(self, keys: Int32s, sums: Int64s) -> None:
        self._pieces = [(keys, sums)]
        self._loose = 0

    @property
    def keys(self) -> Int32s:
        """The keys in use, ascending; shape (k,)."""
        self._merge()
        return self._pieces[0][0]

    @property
    def sums(self) -> Int64s:
        """Their sums, shape (…, k)."""
        self._merge()
        return self._pieces[0][1]

    def add(self, other: SparseSums) -> None:
        """Add another's sums to these."""
        added = other._pieces
        self._loose += sum(keys.size for keys, _ in added)
        self._pieces.extend(added)
        if self._loose > max(_LOOSE_TIMES * self._pieces[0][0].size, _LOOSE_MIN):
            self._merge()

    def copy(self) -> SparseSums:
        """The same sums, to be added to independently."""
        return SparseSums(self.keys, self.sums)

    def _merge(self) -> None:
        if len(self._pieces) > 1:
            keys = np.concatenate([keys for keys, _ in self._pieces])
            order = np.argsort(keys, kind="stable")  # ascending runs: merged, not sorted anew
            keys = keys[order]
            sums = np.concatenate([sums for _, sums in self._pieces], axis=-1).take(order, axis=-1)
            starts = run_starts(keys)
            self._pieces = [(keys[starts], np.add.reduceat(sums, starts, axis=-1))]
        self._loose = 0
