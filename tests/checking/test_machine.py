"""Checked sessions under whatever a model may do: no finding; and under what it may not: always."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from statekit import checking
from statekit.checking.arrays import arrays_of
from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from tests.checking.toy import toy

SEEDS = st.integers(0, 2**16)
CARRIED = ("scale", "latent", "frame", "pending", "kv", "cache", "scratch")
GONE = ("kv", "cache", "latent")


class StepError(Exception):
    """A forward breaks off."""


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def make(name: str, seed: int) -> Any:
    """A value as declared, or None."""
    if seed % 5 == 0:
        return None
    return {
        "scale": lambda: seed / 7,
        "latent": lambda: random(seed, 1, 4, 1 + seed % 3, 8, 8),
        "frame": lambda: np.full((64, 64, 3), seed % 251, np.uint8),
        "pending": lambda: random(seed, seed % 4, 2),
        "kv": lambda: [random(seed + one, 3) for one in range(seed % 3)],
        "cache": lambda: [random(seed, 4), None, random(seed, 2)],
        "scratch": lambda: random(seed, 5),
    }[name]()


def write(state: Any, name: str, seed: int) -> None:
    """Any write that the schema allows."""
    pair = (random(seed, 2), random(seed, 1))
    ring, frames, held = state.ring_object, state.frames_object, state.held_object
    frame = np.full((64, 64, 3), seed % 251, np.uint8)
    writes: dict[str, Callable[[], Any]] = {
        "ring.append": lambda: ring.append(random(seed, 2, 1 + seed % 5, 8)),
        "ring.stage": lambda: ring.stage(random(seed, 2, 1, 8)),
        "ring.commit": ring.commit,
        "ring.discard": ring.discard,
        "ring.replace": lambda: ring.replace([random(seed, 2, 1, 8)] * (seed % 3)),
        "frames.extend": lambda: frames.extend([frame] * (seed % 6)),
        "held.commit": lambda: held.commit([random(seed, 3), random(seed, 1)]),
        "held.stage": lambda: held.stage([random(seed, 3)]),
        "held.promote": held.commit,
        "held.discard": held.discard,
        "held.clear": held.clear,
        "text": lambda: state.text(("positive", "negative")[seed % 2]).replace([pair] * 2),
    }
    if name in writes:
        writes[name]()
    elif name == "entries" and state.cache:
        state.cache[seed % len(state.cache)] = random(seed, 2)
        state.cache.append(None)
    elif name == "in_place" and state.scratch is not None:
        state.scratch.add_(1)
    elif name in CARRIED:
        setattr(state, name, make(name, seed))


WRITES = st.sampled_from([
    *CARRIED, "ring.append", "ring.append", "ring.stage", "ring.commit", "ring.discard",
    "ring.replace", "frames.extend", "held.commit", "held.stage", "held.promote", "held.discard",
    "held.clear", "text", "entries", "entries", "in_place",
])  # fmt: skip


class CheckedMachine(RuleBasedStateMachine):
    """One session; an adapter that is kept, and others that come and go."""

    @initialize()
    def start(self) -> None:
        self.manager = SessionStateManager()
        self.state = self.adapter()
        self.let_go: list[Any] = []

    def adapter(self) -> Any:
        with checking.enabled():
            return toy(manager=self.manager)

    def values(self) -> list[Any]:
        """All that the session holds and that may not be written into."""
        session = self.state.session
        values = [value for name, value in session.attrs.items() if name != "scratch"]
        for obj in session.objects.values():
            values += [obj.committed(), obj.staged()]
        return values

    def protected(self) -> list[torch.Tensor]:
        arrays = [array for value in self.values() for _, array in arrays_of(value)]
        return [one for one in arrays if isinstance(one, torch.Tensor) and one.numel()]

    @rule(name=WRITES, seed=SEEDS, kept=st.booleans(), watched=st.booleans())
    def write(self, name: str, seed: int, kept: bool, watched: bool) -> None:
        state = self.state if kept else self.adapter()
        watch = checking.watch(state.session) if watched else nullcontext()
        with self.letting_go(), watch:
            write(state, name, seed)

    @rule(writes=st.lists(st.tuples(WRITES, SEEDS), max_size=4), fails=st.booleans())
    def step(self, writes: list[tuple[str, int]], fails: bool) -> None:
        session = self.state.session
        with self.letting_go(), suppress(StepError), session.step(), checking.watch(session):
            for name, seed in writes:
                write(self.state, name, seed)
            if fails:
                raise StepError

    @rule(writes=st.lists(st.tuples(WRITES, SEEDS), max_size=3), promoted=st.booleans())
    def fork(self, writes: list[tuple[str, int]], promoted: bool) -> None:
        self.state.ring_object.discard()
        self.state.held_object.discard()
        fork = self.state.fork()
        for name, seed in writes:
            write(fork, name, seed)
        checking.look(fork.session)
        checking.look(self.state.session)
        with self.letting_go():
            if promoted:
                fork.session.promote()
            else:
                fork.session.discard()

    @rule()
    def write_into_what_was_let_go(self) -> None:
        held = {id(one) for one in self.protected()}  # again: a fork or a failed step gave it back
        with checking.watch(self.state.session):
            for tensor in self.let_go:
                if id(tensor) not in held:
                    tensor.add_(1)

    @rule(name=st.sampled_from(GONE))
    def delete(self, name: str) -> None:
        with self.letting_go():
            if name in self.state.session.attrs:
                delattr(self.state, name)

    @rule(all_of_it=st.booleans())
    def reset(self, all_of_it: bool) -> None:
        with self.letting_go():
            if all_of_it:
                self.state.session.reset()
            else:
                self.state._clear("ring", "held", "text", "cache", "latent")

    @precondition(lambda self: self.protected())
    @rule(which=st.integers(0, 99), watched=st.booleans(), seed=SEEDS)
    def write_into_what_is_held(self, which: int, watched: bool, seed: int) -> None:
        tensors = self.protected()
        tensor = tensors[which % len(tensors)]
        before = tensor.clone()
        if watched:
            with checking.watch(self.state.session), pytest.raises(DeclarationError):
                tensor.view(-1)[seed % tensor.numel()] += 1
            assert torch.equal(tensor, before)
        else:
            tensor.view(-1)[seed % tensor.numel()] += 1
            assert self.findings() > 0

    def findings(self) -> int:
        """How many values say that they have changed, until none does: each once."""
        count = 0
        while self.has_changed():
            count += 1
            assert count < 20, "a change is reported again and again"
        return count

    def has_changed(self) -> bool:
        try:
            checking.look(self.state.session)
        except DeclarationError as error:
            return "was written into" in error.found
        return False

    @contextmanager
    def letting_go(self) -> Iterator[None]:
        """Remember the tensors that the session holds before, and not after."""
        before = self.protected()
        yield
        held = {id(one) for one in self.protected()}
        self.let_go += [one for one in before if id(one) not in held]

    @invariant()
    def there_is_no_finding(self) -> None:
        if hasattr(self, "state"):
            checking.look(self.state.session)


CheckedMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestCheckedMachine = CheckedMachine.TestCase
