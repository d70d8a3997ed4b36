"""Bytes per device that a value holds: storages, not elements, each counted once.

Owns the record of what has been counted (`SeenStorages`) and the functions on top of it. Which
objects hold which memory is known to `statekit.walk`; who asks, and when, is the caller's affair.

    A1  What counts is memory, known by device and address, never an element, a view or a name:
        numpy, torch and the buffers of bytes share one record, so any two of them over the same
        memory are counted once, in whatever order they are met.
    A2  What holds no memory counts nothing: meta and fake tensors, empty and resized-to-zero
        storages, numbers, strings, weak references, and whatever is code rather than data
        (modules, classes, functions and methods, generators, frames, locks, loggers).
    A3  Counting changes nothing and waits for nothing: no lock is taken, no property evaluated, no
        device synchronised, no copy-on-write storage copied.
    A4  A byte in doubt is counted where it lies: an array over memory of a foreign library counts
        the range it spans, a memory map counts its mapped length, both under "cpu".

Out of sight, therefore not counted: what only C or C++ code refers to, such as tensors saved by an
autograd graph, scales of a quantized tensor, or the part of an array outside the slice that
`torch.from_numpy(array[3:])` was given (the array itself is counted where it is held as such).

Thread rule: a `SeenStorages` belongs to one walk of one thread. Other threads may change the
values meanwhile: each container is read in one step, so the answer is a mixture of before and
after, never an error.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from statekit.byte_sums import merge_bytes
from statekit.walk.walk import HANDLERS, Handler, Walk

__all__ = ["SeenStorages", "device_bytes", "merge_bytes"]


class SeenStorages:
    """What one count has met already: ranges of memory per device, and objects.

    Share one over the values of a count (both buckets, all sessions) and each byte is counted for
    the first value that holds it. It is a record of one moment, not a cache: an object that has
    been met is not looked into again, so take a new one for the next count. It keeps alive all
    that it has met, because an address or an id in use cannot be given to another object; let it
    go when the count is done.
    """

    __slots__ = ("_edges", "_handlers", "_owners", "_visited")

    def __init__(self) -> None:
        self._edges: dict[str, list[int]] = {}  # device -> start, end, start, end, ... ascending
        self._owners: list[object] = []
        self._visited: dict[int, object] = {}
        self._handlers: dict[type, Handler | None] = dict(HANDLERS)

    def cover(self, device: str, start: int, nbytes: int, owner: object) -> int:
        """Record `nbytes` of memory at address `start`; return how many of them are new.

        Args:
            device: "cpu", "cuda:0", ...: addresses of different devices never meet.
            start: first address.
            nbytes: length; zero or less covers nothing.
            owner: kept alive, so that the memory is not given to another storage meanwhile.
        """
        if nbytes <= 0:
            return 0
        end = start + nbytes
        edges = self._edges.get(device)
        if edges is None:
            edges = self._edges[device] = []
        first = bisect_left(edges, start)
        starts_inside = first % 2  # odd: within a range that is known, or touching its end
        if first == len(edges) or end < edges[first]:
            if starts_inside:
                return 0
            edges[first:first] = (start, end)
            self._owners.append(owner)
            return nbytes
        last = bisect_right(edges, end)
        ends_inside = last % 2
        met = edges[first:last]
        if starts_inside:
            met.insert(0, start)
        if ends_inside:
            met.append(end)
        new = nbytes - (sum(met[1::2]) - sum(met[::2]))
        if new:
            edges[first:last] = ([] if starts_inside else [start]) + ([] if ends_inside else [end])
            self._owners.append(owner)
        return new

    def meets(self, device: str, start: int, nbytes: int) -> bool:
        """Whether any of `nbytes` at address `start` has been covered; records nothing."""
        edges = self._edges.get(device, [])
        first = bisect_right(edges, start)
        starts_inside = first % 2 == 1
        return starts_inside or (first < len(edges) and edges[first] < start + nbytes)

    def visit(self, obj: object) -> bool:
        """Record an object by identity; return whether it was met for the first time.

        For handles that report a number of their own and have no address to cover.
        """
        key = id(obj)
        if key in self._visited:
            return False
        self._visited[key] = obj
        return True


def device_bytes(value: object, seen: SeenStorages | None = None) -> dict[str, int]:
    """Return the bytes by device string that `value` holds and that `seen` has not met.

    Follows every reference that the interpreter can see: containers (keys too), instances with
    `__dict__` or `__slots__`, views to their owners, tensors to their gradients, parts and
    attributes. An object whose class has a method `nbytes_by_device(seen)` is asked instead; if
    that method takes no `seen`, the object counts for others, not as a part of a value (a manager
    that a session refers to), and is passed over. Works through a list of things to do, so a chain
    of any length is fine. Devices without new bytes are absent.

    Args:
        value: anything.
        seen: what has been counted already; extended by this call. None: nothing yet.

    Raises:
        Exception: whatever an `nbytes_by_device` that was asked raises; nothing else.
    """
    if seen is None:
        seen = SeenStorages()
    walk = Walk(seen, value)
    todo = walk.todo
    handlers = seen._handlers
    visited = seen._visited
    while todo:
        obj = todo.pop()
        cls = type(obj)
        try:
            handler = handlers[cls]
        except KeyError:
            handler = walk.handler_of(cls)
        if handler is None:
            continue
        key = id(obj)
        if key not in visited:
            visited[key] = obj
            handler(obj, walk)
    return walk.total
