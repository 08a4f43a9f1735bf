"""The folder state/ of a checkpoint: operators, partitions, stores and their files. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from controlplane.checkpoints.decoding import schemas
from controlplane.checkpoints.decoding.errors import Corrupt
from controlplane.checkpoints.decoding.schemas import StateSchema
from controlplane.checkpoints.inventory.model import Inventory

DEFAULT_STORE = "default"
#: `5.delta`, `5.snapshot`, `5.zip`, `5.changelog`, and `5_<id>.zip` of format version 2.
_VERSIONED = re.compile(r"(\d{1,18})(?:_([0-9a-zA-Z-]+))?\.(delta|snapshot|zip|changelog)")
CHANGES = ("delta", "changelog")


@dataclass(frozen=True)
class StateFile:
    """A versioned file of a store. `kind`: its extension. `id`: empty before format version 2."""

    path: str
    version: int
    kind: str
    id: str = ""


@dataclass(frozen=True)
class Store:
    """A state store of one partition."""

    folder: str
    operator: int
    partition: int
    name: str
    files: tuple[StateFile, ...]

    def of(self, *kinds: str) -> Iterator[StateFile]:
        """The files of these kinds."""
        return (file for file in self.files if file.kind in kinds)

    @property
    def newest(self) -> int | None:
        """The highest version of any file; None for an empty store."""
        return max((file.version for file in self.files), default=None)


@dataclass(frozen=True)
class OperatorMetadata:
    """The metadata file of an operator (Spark 4.0 and later). `fault`: why it cannot be read."""

    version: int
    path: str
    name: str = ""
    partitions: int | None = None
    schema_paths: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator. `schemas`: path → schema, or why it cannot be read."""

    number: int
    folder: str
    stores: Mapping[tuple[int, str], Store]
    metadata: OperatorMetadata | None
    schemas: Mapping[str, StateSchema | str] = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partition numbers with a folder, ascending."""
        return tuple(sorted({partition for partition, _ in self.stores}))

    @property
    def store_names(self) -> tuple[str, ...]:
        """Names of the stores that hold files in some partition."""
        return tuple(sorted({name for (_, name), store in self.stores.items() if store.files}))

    @property
    def is_join(self) -> bool:
        """Whether it is a stream-stream join, by its metadata or its store names."""
        recorded = self.metadata is not None and self.metadata.name == "symmetricHashJoin"
        return recorded or any(name.startswith(("left-", "right-")) for name in self.store_names)

    @property
    def is_transform(self) -> bool:
        """Whether it is transformWithState, by its metadata."""
        return self.metadata is not None and (
            self.metadata.version >= 2 or self.metadata.name.startswith("transformWithState")
        )

    @property
    def readable_schemas(self) -> tuple[StateSchema, ...]:
        """The schemas that could be read."""
        return tuple(held for held in self.schemas.values() if isinstance(held, StateSchema))

    @cached_property
    def keyless(self) -> bool | None:
        """Whether all its state is in partition 0 by design; None where no schema is known."""
        read = self.readable_schemas
        return all(schema.keyless for schema in read) if read else None


def operators(inventory: Inventory) -> tuple[StateOperator, ...]:
    """The operators below state/, by number."""
    numbers = sorted(int(name) for name in inventory.names("state") if _is_number(name))
    return tuple(_operator(inventory, number) for number in numbers)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 10


def _operator(inventory: Inventory, number: int) -> StateOperator:
    folder = f"state/{number}"
    stores: dict[tuple[int, str], Store] = {}
    for name in filter(_is_number, inventory.names(folder)):
        at = f"{folder}/{name}"
        if inventory.is_folder(at):
            for store in _stores(inventory, number, int(name), at):
                stores[store.partition, store.name] = store
    return StateOperator(
        number, folder, stores, _metadata(inventory, folder), dict(_schemas(inventory, folder))
    )


def _stores(inventory: Inventory, operator: int, partition: int, at: str) -> Iterator[Store]:
    named = [
        name
        for name in inventory.names(at)
        if inventory.is_folder(f"{at}/{name}")
        and not name.startswith(("_", "."))
        and name not in ("SSTs", "logs")
    ]
    own = tuple(_files(inventory, at))
    if own or not named:
        yield Store(at, operator, partition, DEFAULT_STORE, own)
    for name in named:
        yield Store(f"{at}/{name}", operator, partition, name, tuple(_files(inventory, f"{at}/{name}")))


def _files(inventory: Inventory, folder: str) -> Iterator[StateFile]:
    for name in inventory.names(folder):
        match = _VERSIONED.fullmatch(name)
        if match and inventory.is_file(f"{folder}/{name}"):
            yield StateFile(f"{folder}/{name}", int(match[1]), match[3], match[2] or "")


def _metadata(inventory: Inventory, folder: str) -> OperatorMetadata | None:
    """The newest metadata file of version 2, else the single file of version 1; None where there is none."""
    second = f"{folder}/_metadata/v2"
    batches = sorted((int(name) for name in inventory.names(second) if _is_number(name)), reverse=True)
    path = f"{second}/{batches[0]}" if batches else f"{folder}/_metadata/metadata"
    if not inventory.is_file(path):
        return None
    version = 2 if batches else 1
    if inventory.size(path) == 0:
        return OperatorMetadata(version, path, fault="it is empty")
    text = inventory.text(path)
    return OperatorMetadata(version, path) if text is None else _read_metadata(version, path, text)


def _read_metadata(version: int, path: str, text: str) -> OperatorMetadata:
    try:
        held = json.loads(text.partition("\n")[2])
        stores = held["stateStoreInfo"]
        paths = tuple(str(p) for store in stores for p in store.get("stateSchemaFilePaths") or ())
        partitions = max((int(store["numPartitions"]) for store in stores), default=None)
        return OperatorMetadata(version, path, str(held["operatorInfo"]["operatorName"]), partitions, paths)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return OperatorMetadata(version, path, fault="it is not Spark's complete JSON")


def _schemas(inventory: Inventory, folder: str) -> Iterator[tuple[str, StateSchema | str]]:
    """Path of each schema file of partition 0, with the schema or why it cannot be read."""
    at = f"{folder}/0"
    for place in (at, *(f"{at}/{name}" for name in inventory.names(at))):
        path = f"{place}/_metadata/schema"
        data = inventory.contents.get(path)
        if data is not None or (inventory.is_file(path) and inventory.size(path) == 0):
            try:
                yield path, schemas.read(data or b"")
            except Corrupt as error:
                yield path, str(error)
