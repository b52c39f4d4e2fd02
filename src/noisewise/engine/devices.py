"""One fit on many devices, of one host or of several: every device holds a share of the rows.

A step's batch is the union of what was drawn from each share. A device clips, rounds and adds up
its own, in passes of the very shape that one device would use, so that every record adds the same
bits wherever it lies; the sums are integers, so that their sum is exact in any order. The first
device has the noise in its sum before anything is added up: it is added once, and no sum without it
is ever formed. What follows from a released sum is computed on every device alike.

Who is drawn: not seeded, every host tosses coins for its own rows with a generator of its own, as
a Poisson sample of a union is the union of independent ones. With a seed all hosts draw the whole
table's batch, and each takes its own rows of it: the fit is that on one device, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from noisewise._hosts import Hosts, stretch_of
from noisewise._validate import NoisewiseError, integer_at_least
from noisewise.data import PrivateRows, StoredRows
from noisewise.engine.algorithm import Run
from noisewise.engine.feeding import _SHARE, Feed, Part, held_in, prepared, read_ahead
from noisewise.mechanism import Chunk, Passes, passes_of_share, room_for

AXIS = "devices"


@dataclass(frozen=True)
class Devices:
    """Those that share a fit's rows, as many on every host.

    Args:
        mesh: All of them, host after host.
        hosts: Whose they are.
    """

    mesh: Mesh
    hosts: Hosts

    @classmethod
    def chosen(cls, devices: int | str | None, hosts: Hosts) -> Devices | None:
        """The first so many of every host; None where one device does it all.

        Args:
            devices: How many of a host's, or ``"all"``; None is one.
            hosts: Who fits together.
        """
        there = jax.local_device_count()
        if devices == "all":
            number = there
        else:
            number = integer_at_least("devices", 1 if devices is None else devices, 1)
        if number > there:
            raise NoisewiseError(
                f"devices is {number} and JAX has {there} on this host: pass devices='all', or for "
                "more of a CPU set XLA_FLAGS=--xla_force_host_platform_device_count"
            )
        if number == 1 and not hosts.several:
            return None
        own: dict[int, list[Any]] = {place: [] for place in range(hosts.count)}
        for device in jax.devices():
            own[device.process_index if hosts.several else 0].append(device)
        every = [device for place in range(hosts.count) for device in own[place][:number]]
        return cls(Mesh(np.array(every), (AXIS,)), hosts)

    @property
    def local(self) -> list[Any]:
        """This host's, in their order."""
        here = jax.process_index()
        return [device for device in self.mesh.devices.flat if device.process_index == here]

    @property
    def words(self) -> str:
        """For a certificate."""
        number, hosts = self.mesh.size // self.hosts.count, self.hosts.count
        each = f"{number} device{'s' if number > 1 else ''}"
        where = f"{hosts} hosts, {each} on each" if hosts > 1 else each
        return f"{where}: every one sums its own share of the rows, the noise is added once"

    def spread(self, of_devices: Sequence[Any]) -> Any:
        """Arrays of this host's devices, each put on its own, as one array of all devices.

        Args:
            of_devices: Trees of arrays of one shape, one a device.
        """
        sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))

        def one(*values: Any) -> Any:
            held = [
                jax.device_put(np.asarray(value)[None], device)
                for value, device in zip(values, self.local, strict=True)
            ]
            shape = (self.mesh.size, *np.shape(values[0]))
            return jax.make_array_from_single_device_arrays(shape, sharding, held)

        return jax.tree.map(one, *of_devices)

    @contextmanager
    def feeding(
        self, rows: PrivateRows, run: Run, count_noise: float, *, whole_batches: bool
    ) -> Iterator[Feed]:
        """How the run's steps come by their rows, as `engine.feeding.feeding` for one device.

        Args:
            rows: This host's records, prepared for the algorithm.
            run: Whose steps they are for.
            count_noise: Standard deviation of the public count's own noise, if it has any.
            whole_batches: Chunks have the whole table's batches, and not those of this host's rows.
        """
        local, public_count = self.local, int(run.numbers.public_count)
        first = rows.share.first if rows.share is not None and whole_batches else 0
        cuts = [stretch_of(rows.own_count, place, len(local)) for place in range(len(local))]
        walk = _Walk(self, run, first, cuts, public_count + math.ceil(6 * count_noise))
        if isinstance(rows, StoredRows):
            with prepared(rows, run) as ready:
                yield partial(_gathered, walk, ready)
            return
        room = room_for(math.ceil(public_count / self.mesh.size) + 2, count_noise)
        longest = self.hosts.greatest(max(end - start for start, end in cuts))
        while room < longest:
            room *= 2
        whole = rows.unsafe_columns()
        held = self.spread(
            [
                {name: held_in(column[start:end], room) for name, column in whole.items()}
                for start, end in cuts
            ]
        )

        def at_once(chunk: Chunk) -> Iterator[Part]:
            passes, shares = walk.shared_out(chunk)
            draws = self.spread([share.chunk(passes, chunk.noise) for share in shares])
            yield Part(held, draws, slice(len(chunk.size)), passes)

        yield at_once


class _Drawn(NamedTuple):
    """What a chunk draws of one device's records: numbers among them, and how many a step."""

    numbers: np.ndarray
    sizes: np.ndarray

    def chunk(self, passes: Passes, noise: np.ndarray) -> Chunk:
        """As a device's compiled steps take it: of a public length."""
        steps = len(self.sizes)
        indices = np.zeros((steps + 1) * passes.room, np.int32)
        indices[: len(self.numbers)] = self.numbers
        ends = np.cumsum(self.sizes)
        offset = (ends - self.sizes).astype(np.int32)
        return Chunk(indices, offset, self.sizes.astype(np.int32), noise)

    def of_steps(self, span: slice) -> _Drawn:
        """What some of the steps draw."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return _Drawn(self.numbers[ends[span.start] : ends[span.stop]], self.sizes[span])


@dataclass(frozen=True)
class _Walk:
    """How batches are shared out over this host's devices."""

    devices: Devices
    run: Run
    first: int
    """Number, in a chunk, of this host's first record."""
    cuts: Sequence[tuple[int, int]]
    """First record of every device, and the one after its last."""
    most: int
    """Records that all devices may hold together: public."""

    def shared_out(self, chunk: Chunk) -> tuple[Passes, list[_Drawn]]:
        """Every device's share of the draws, and passes enough for the largest of all hosts."""
        ends = chunk.offset + chunk.size
        numbers = chunk.indices[: int(ends[-1])] - self.first
        step = np.repeat(np.arange(len(chunk.size)), chunk.size)
        shares = []
        for start, end in self.cuts:
            own = (numbers >= start) & (numbers < end)
            sizes = np.bincount(step[own], minlength=len(chunk.size))
            shares.append(_Drawn(numbers[own] - start, sizes))
        run, size = self.run, self.devices.mesh.size
        usual = passes_of_share(run.passes, self.most, run.sampling_rate, size)
        largest = max(int(share.sizes.max()) for share in shares)
        return usual.enough_for(self.devices.hosts.greatest(largest)), shares


def _gathered(walk: _Walk, rows: StoredRows, chunk: Chunk) -> Iterator[Part]:
    """Of rows on disk those that were drawn, for as many steps as memory allows."""
    passes, shares = walk.shared_out(chunk)

    def read(span: slice) -> Part:
        columns, draws = [], []
        for (start, _), share in zip(walk.cuts, shares, strict=True):
            own = share.of_steps(span)
            room = (len(own.sizes) + 1) * passes.room
            batches = np.split(own.numbers + start, np.cumsum(own.sizes)[:-1])
            columns.append(rows.unsafe_taken(batches, room))
            in_order = own._replace(numbers=np.arange(len(own.numbers)))
            draws.append(in_order.chunk(passes, chunk.noise[span]))
        spread = walk.devices.spread
        return Part(spread(columns), spread(draws), span, passes)

    record_bytes = rows.record_bytes() * len(walk.cuts)
    return read_ahead(read, len(chunk.size), rows.memory // _SHARE // (passes.room * record_bytes))


def on_hosts(tree: Any) -> Any:
    """Arrays that every host has alike, as NumPy holds them: what all hosts pass to one program.

    Args:
        tree: Of arrays and numbers.
    """
    return jax.tree.map(
        lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def with_numbers_on_hosts(run: Run) -> Run:
    """The run with its arrays as NumPy holds them.

    Args:
        run: As it was assembled, on this host's own device.
    """
    numbers, schedule, start = on_hosts((run.numbers, run.schedule, run.start))
    return replace(run, numbers=numbers, schedule=schedule, start=start)
