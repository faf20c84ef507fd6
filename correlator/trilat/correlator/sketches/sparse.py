"""Sums kept for a few of many keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trilat.correlator.arrays import Int32s, Int64s

__all__ = ["SparseSums", "run_sizes", "run_starts"]

_LOOSE_MIN = 1024
_LOOSE_TIMES = 4
_SORTED_MAX = 4
_SCATTERED_MAX = 2**17


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

    @classmethod
    def of(cls, pieces: Sequence[SparseSums]) -> SparseSums:
        """The sums of one or more together; merged once, when they are read."""
        together = cls(*pieces[0]._pieces[0])
        together._pieces = [piece for each in pieces for piece in each._pieces]
        return together

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
        other._merge()  # it may be added elsewhere, too
        added = other._pieces
        self._loose += sum(keys.size for keys, _ in added)
        self._pieces.extend(added)
        if self._loose > max(_LOOSE_TIMES * self._pieces[0][0].size, _LOOSE_MIN):
            self._merge()

    def less(self, earlier: SparseSums) -> SparseSums:
        """What was added since: these sums less those of an earlier `copy`, for the same keys.

        Raises:
            ValueError: the other has a key that is not among these.
        """
        keys, sums = self.keys, self.sums.copy()
        at = np.searchsorted(keys, earlier.keys)
        if not np.array_equal(keys[at[at < keys.size]], earlier.keys):
            raise ValueError("not an earlier state of these sums")
        sums[..., at] -= earlier.sums
        return SparseSums(keys, sums)

    def only(self, kept: npt.NDArray[np.bool_]) -> SparseSums:
        """The sums of some of the keys; ``kept`` says of each whether it stays."""
        return SparseSums(self.keys[kept], self.sums[..., kept])

    def copy(self) -> SparseSums:
        """The same sums, to be added to independently."""
        return SparseSums(self.keys, self.sums)

    def _merge(self) -> None:
        if len(self._pieces) > 1:
            keys = np.concatenate([keys for keys, _ in self._pieces])
            sums = np.concatenate([sums for _, sums in self._pieces], axis=-1)
            many = len(self._pieces) > _SORTED_MAX and sums.ndim == 1
            self._pieces = [(_scattered if many else _sorted)(keys, sums)]
        self._loose = 0


def _sorted(keys: Int32s, sums: Int64s) -> tuple[Int32s, Int64s]:
    order = np.argsort(keys, kind="stable")  # ascending runs: merged, not sorted anew
    keys = keys[order]
    starts = run_starts(keys)
    return keys[starts], np.add.reduceat(sums.take(order, axis=-1), starts, axis=-1)


def _scattered(keys: Int32s, sums: Int64s) -> tuple[Int32s, Int64s]:
    """The same for many pieces, whose runs are too many to be merged fast."""
    size = int(keys.max(initial=0)) + 1
    if size > _SCATTERED_MAX:
        return _sorted(keys, sums)
    whole, used = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    np.add.at(whole, keys, sums)
    used[keys] = True
    kept = np.flatnonzero(used)
    return kept.astype(np.int32), whole[kept]
