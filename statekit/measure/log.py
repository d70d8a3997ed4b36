"""Log: what one session held after each of its steps, in bounded memory.

Owns the numbers while they are gathered; `measured` makes frozen data of them. Holds no value of
the session and no tensor.

    G1  One session and value takes the same memory after 100 steps and after 100,000.
    G2  Peaks, first and last steps are exact, whatever became of the points between.

Not thread-safe: the recorder's lock guards it.
"""

from __future__ import annotations

from collections.abc import Mapping

from statekit.accounting import merge_bytes
from statekit.books.footprint import Interval
from statekit.measure.curve import Curve, Grid, growth_of
from statekit.measure.looking import Sight, ValueId
from statekit.measure.recording import MeasuredSession, MeasuredValue, Pinned, StepKind

__all__ = ["SessionLog"]

_MOST_SHAPES = 8
_EMPTY: Mapping[str, int] = {}


class SessionLog:
    """The steps of one session.

    Attributes:
        session_id, process: whose it is.
        models: whose schemas its adapters brought.
        parameters, overrides, model_device: as `MeasuredSession` has them.
        counted: steps by kind.
        number: which session it was, in the order in which they began.
    """

    def __init__(
        self, session_id: str, process: int, model_device: str, points: int, number: int = 0
    ) -> None:
        self.session_id = session_id
        self.process = process
        self.model_device = model_device
        self.models: tuple[str, ...] = ()
        self.parameters: dict[str, dict[str, int]] = {}
        self.overrides: dict[str, int] = {}
        self.counted: dict[str, int] = {}
        self.number = number
        self._grid = Grid(points)
        self._total = _Amount()
        self._values: dict[ValueId, _ValueLog] = {}
        self._before: dict[ValueId, Sight] = {}
        self._sum: Mapping[str, int] = _EMPTY

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return self._grid.last

    @property
    def peak(self) -> int:
        """The most bytes that the session held."""
        return self._total.peak

    @property
    def now(self) -> int:
        """The bytes that the session held after its last step."""
        return self._total.last

    def add(self, kind: StepKind, sights: Mapping[ValueId, Sight]) -> None:
        """One more step, after which the session holds this."""
        self.counted[kind] = self.counted.get(kind, 0) + 1
        if self._grid.advance():
            for amount in (self._total, *(one.amount for one in self._values.values())):
                amount.halve()
        self._tell(sights)

    def amend(self, sights: Mapping[ValueId, Sight]) -> None:
        """The last step has gone on, and now the session holds this."""
        if self._grid.last:
            self._tell(sights)

    def _tell(self, sights: Mapping[ValueId, Sight]) -> None:
        grid, before = self._grid, self._before
        changed = len(sights) != len(before)
        for value, sight in sights.items():
            log = self._values.get(value)
            if log is None:
                log = self._values[value] = _ValueLog()
            log.amount.tell(grid, sight.nbytes)
            if before.get(value) is not sight:
                changed = True
                log.see(sight, grid.last)
        for gone in before.keys() - sights.keys():
            self._values[gone].amount.tell(grid, _EMPTY)
        if changed:
            self._sum = _sum(sights)
        self._total.tell(grid, self._sum)
        self._before = dict(sights)

    def extremes(self) -> dict[object, int]:
        """What there is to tell of the session: the most of everything that may be told."""
        found: dict[object, int] = {"steps": self.steps}
        for value, log in self._values.items():
            for what, number in log.extremes().items():
                found[value, what] = number
        return found

    def forget_before(self) -> None:
        """Values may have other names from now on: their schema came to be known."""
        if not self._values.keys() - {one for one in self._values if one.model}:
            return
        self._values = {one: log for one, log in self._values.items() if one.model}
        self._before = {one: sight for one, sight in self._before.items() if one.model}

    def measured(self) -> MeasuredSession:
        """All of it, as of now."""
        total = self._total
        return MeasuredSession(
            session_id=self.session_id,
            process=self.process,
            models=self.models,
            parameters={model: dict(sizes) for model, sizes in self.parameters.items()},
            overrides=dict(self.overrides),
            model_device=self.model_device,
            counted=dict(self.counted),
            steps=self._grid.steps,
            nbytes=total.curves(self._grid),
            peak_by_device=dict(total.peak_by_device),
            peak_nbytes=total.peak,
            peak_step=total.peak_step,
            values=tuple(log.measured(one, self._grid) for one, log in self._values.items()),
        )


class _Amount:
    """Bytes by device, over the steps."""

    __slots__ = ("_curves", "first", "held_from", "held_to", "last", "peak", "peak_by_device",
                 "peak_step")  # fmt: skip

    def __init__(self) -> None:
        self._curves: dict[str, Curve] = {}
        self.first = self.last = self.peak = self.peak_step = 0
        self.peak_by_device: dict[str, int] = {}
        self.held_from: int | None = None
        self.held_to: int | None = None

    def tell(self, grid: Grid, nbytes: Mapping[str, int]) -> None:
        total = 0
        for device, count in nbytes.items():
            total += count
            curve = self._curves.get(device)
            if curve is None:
                curve = self._curves[device] = Curve()
            curve.tell(grid, count)
            if count > self.peak_by_device.get(device, 0):
                self.peak_by_device[device] = count
        step = grid.last
        if step == 1:
            self.first = total
        self.last = total
        if total > self.peak:
            self.peak, self.peak_step = total, step
        if total:
            self.held_to = step
            if self.held_from is None:
                self.held_from = step

    def halve(self) -> None:
        for curve in self._curves.values():
            curve.halve()

    def curves(self, grid: Grid) -> dict[str, tuple[int, ...]]:
        return {device: curve.over(grid) for device, curve in self._curves.items()}


class _ValueLog:
    """One value."""

    __slots__ = ("_dtypes", "_frames", "_item", "_items", "_members", "_peak_shapes", "_pinned",
                 "_shaped_at", "_shapes", "_written", "amount")  # fmt: skip

    def __init__(self) -> None:
        self.amount = _Amount()
        self._dtypes: set[str] = set()
        self._shapes: dict[tuple[int, ...], None] = {}
        self._peak_shapes: tuple[tuple[int, ...], ...] = ()
        self._shaped_at = -1
        self._items = self._frames = self._item = 0
        self._members: dict[str, int] = {}
        self._pinned: Pinned | None = None
        self._written = False

    def see(self, sight: Sight, step: int) -> None:
        """What a step left, where it is not what the one before left."""
        facts = sight.facts
        self._written = self._written or facts.written
        self._dtypes |= facts.dtypes
        for shape in sorted(facts.shapes):
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[shape] = None
        total = sum(sight.nbytes.values())
        if facts.shapes and total > self._shaped_at:
            self._peak_shapes, self._shaped_at = tuple(sorted(facts.shapes)[:_MOST_SHAPES]), total
        self._items = max(self._items, facts.items)
        self._frames = max(self._frames, facts.frames)
        self._item = max(self._item, facts.largest_item)
        for family, count in sight.members.items():
            self._members[family] = max(count, self._members.get(family, 0))
        excess, whole = sight.excess
        if excess and (self._pinned is None or excess > self._pinned.nbytes):
            self._pinned = Pinned(excess, whole, step)

    def extremes(self) -> dict[object, int]:
        """The most of everything that may be told."""
        amount, pinned = self.amount, self._pinned
        found: dict[object, int] = dict.fromkeys(self._dtypes, 1)
        found.update(dict.fromkeys((len(shape) for shape in self._shapes), 1))
        found.update(amount.peak_by_device)
        found["written"], found["pinned"] = self._written, 0 if pinned is None else pinned.nbytes
        found["items"], found["item"] = max(self._items, self._frames), self._item
        return found

    def measured(self, value: ValueId, grid: Grid) -> MeasuredValue:
        amount = self.amount
        curves = amount.curves(grid)
        sums = [sum(points) for points in zip(*curves.values(), strict=True)]
        growth = growth_of(grid.steps, sums or [0] * len(grid.steps))
        shapes = dict.fromkeys([*self._peak_shapes, *self._shapes])
        return MeasuredValue(
            model=value.model,
            name=value.name,
            bucket=value.bucket,
            first_nbytes=amount.first,
            last_nbytes=amount.last,
            peak_nbytes=amount.peak,
            peak_step=amount.peak_step,
            peak_by_device=dict(amount.peak_by_device),
            held_from=amount.held_from,
            held_to=amount.held_to,
            growth=growth.per_step,
            grows=growth.steady,
            nbytes=curves,
            members=dict(self._members),
            dtypes=tuple(sorted(self._dtypes)),
            shapes=tuple(shapes),
            peak_shapes=self._peak_shapes,
            items=self._items,
            frames=self._frames,
            item_nbytes=self._item,
            pinned=self._pinned,
            written=self._written,
        )


def _sum(sights: Mapping[ValueId, Sight]) -> dict[str, int]:
    """Bytes by device of all values, each piece of memory once."""
    total: dict[str, int] = {}
    met: set[Interval] = set()
    for sight in sights.values():
        intervals = sight.facts.intervals
        merge_bytes(total, sight.nbytes)
        if not met.isdisjoint(intervals):
            for device, start, end in met & intervals:
                total[device] -= end - start
        met |= intervals
    return total
