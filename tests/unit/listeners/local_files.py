"""`listeners.checkpoints.hadoop.DirectoryReader` for local folders, to test collection without a JVM."""

from __future__ import annotations

import os
from pathlib import Path

from listeners.checkpoints.hadoop import ListedFile
from listeners.protocol.errors import FilesError


class LocalFiles:
    """A local folder. `calls` lists the calls; a path in `broken` cannot be read."""

    def __init__(self, root: Path):
        self.root = f"file:{root}"
        self.path = root
        self.calls: list[str] = []
        self.broken: set[str] = set()
        #: Path → called just before it is listed, to change files during the collection.
        self.meanwhile: dict[str, object] = {}

    def status(self) -> ListedFile:
        return self._guarded(".", lambda: _from_match(self.path))

    def list_folder(self, folder: str, limit: int) -> tuple[list[ListedFile], bool]:
        act = self.meanwhile.pop(folder, None)
        if callable(act):
            act()
        found = self._guarded(
            folder, lambda: [_from_match(Path(each.path)) for each in os.scandir(self.path / folder)]
        )
        return found[:limit], len(found) <= limit

    def read(self, path: str) -> bytes:
        return self._guarded(path, (self.path / path).read_bytes)

    def _guarded(self, path, ask):
        self.calls.append(path)
        if path in self.broken:
            raise FilesError("java.io.IOException: permission denied")
        try:
            return ask()
        except FileNotFoundError as error:
            raise FilesError(f"java.io.FileNotFoundException: {error.filename}", gone=True) from None


def _from_match(path: Path) -> ListedFile:
    found = path.stat()
    folder = path.is_dir()
    return ListedFile(path.name, folder, 0 if folder else found.st_size, int(found.st_mtime * 1000) / 1000)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_checkpoint(root: Path, batches: int = 3, partitions: int = 2) -> None:
    """Write a stateful query's checkpoint with `batches` committed batches."""
    write(root, {"metadata": '{"id":"1d8f6f2e-0000-4000-8000-000000000000"}'})
    for batch in range(batches):
        write_batch(root, batch)
        for partition in range(partitions):
            write(root, {f"state/0/{partition}/{batch + 1}.delta": "x"})


def write_batch(root: Path, batch: int) -> None:
    write(
        root,
        {
            f"offsets/{batch}": 'v1\n{"batchWatermarkMs":0}\n{"logOffset":%d}' % batch,
            f"sources/0/{batch}": 'v1\n{"path":"file:///in/a"}',
            f"commits/{batch}": 'v1\n{"nextBatchWatermarkMs":0}',
        },
    )
