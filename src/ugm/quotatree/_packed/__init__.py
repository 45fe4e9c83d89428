"""The packed queue: find the requests that fit a free amount, among thousands that wait, without looking at each.

The problem: a consumer that does not fit its group is held at a node above. When something is released below, the tree
has to move down every such consumer that fits now, in order of arrival. In a busy tree thousands of them wait above one
node, and usually none or one fits. A loop over all of them would dominate the cost of every release.

The idea: three layers, each of which lets one operation on a Python integer do the work of many:

1. `amounts`: the amounts of all resources are fields of one integer. One subtraction charges a request, and one
   subtraction and one comparison decide whether it fits.
2. `lanes`: up to 64 requests, in narrower fields, are the *lanes* of one long integer, a *block*. One subtraction
   compares all of them with the free amount (this technique is known as SIMD within a register).
3. `blocks`: each block is summarized by its minimum, resource by resource. The minima are lanes of blocks as well,
   level by level up to a single block. A search descends only where a minimum fits. This is a search tree with a
   fan-out of up to 64.

Invariant: a summary is never greater than the minimum of its block, so the search never misses a request that fits. It
may be smaller, which costs time only: every request that is found is compared exactly. False positives arise when the
minima come from different requests, or are stale after a removal. A stale minimum is recomputed after a few fruitless
visits.

The cost: appending and removing are constant on average. Finding a request takes one comparison for each level, plus
the false positives. A queue of fewer than 32 requests is a plain dictionary. The cost of a comparison grows with the
width of the amounts and the number of resources, so blocks use the narrowest fields in which their requests fit.

`PackedQueue` is the interface.
"""

from __future__ import annotations

from ugm.quotatree._packed.amounts import Amounts, Packing
from ugm.quotatree._packed.queue import PackedQueue

__all__ = ["Amounts", "PackedQueue", "Packing"]
