"""Orphaned spools: who may adopt them, and what is deleted."""

import json
import os
import time
import uuid

from listeners.delivery import orphans
from listeners.delivery.spool import Spool

OWNER = {"app": "orders", "server": "http://localhost:8420"}


def left_behind(root, agent, owner=OWNER, events=2, delivered=0):
    spool = Spool(root / agent, owner)
    spool.append([(seq, b"%d" % seq) for seq in range(1, events + 1)])
    if delivered:
        spool.acknowledge(spool.peek(delivered, 10_000)[-1][0])
    spool.close()
    return spool.directory


def make_old(directory, days=8):
    for path in (*directory.glob("*"), directory):
        os.utime(path, (time.time() - days * 86400,) * 2)


def test_orphan_of_any_application_is_found_by_its_server(tmp_path):
    left_behind(tmp_path, "a1")
    left_behind(tmp_path, "a2", dict(OWNER, app="clicks"))
    left_behind(tmp_path, "a4", dict(OWNER, server="http://elsewhere:8420"))
    living = Spool(tmp_path / "a3", OWNER)
    found = {orphan.owner["app"]: orphan.spool for orphan in orphans.orphans(tmp_path, OWNER["server"])}
    assert {app: spool.directory.name for app, spool in found.items()} == {"orders": "a1", "clicks": "a2"}
    assert [seq for seq, _ in found["orders"].peek(10, 1000)] == [1, 2]
    found["orders"].close(remove=True)
    found["clicks"].close()
    assert not (tmp_path / "a1").exists()
    assert orphans.in_use(tmp_path) == 1
    assert [o.spool.directory.name for o in orphans.orphans(tmp_path, None)] == ["a2", "a4"]
    assert json.loads((tmp_path / "a3" / "owner.json").read_text())["app"] == "orders"
    living.close()


def test_orphan_is_adopted_by_one_process_at_a_time(tmp_path):
    left_behind(tmp_path, "a1")
    first = list(orphans.orphans(tmp_path, OWNER["server"]))
    assert len(first) == 1 and list(orphans.orphans(tmp_path, OWNER["server"])) == []
    first[0].spool.close()


def test_oldest_orphan_comes_first(tmp_path):
    make_old(left_behind(tmp_path, "b"), days=1)
    make_old(left_behind(tmp_path, "a"), days=2)
    left_behind(tmp_path, "0")
    names = []
    for spool, _ in orphans.orphans(tmp_path, OWNER["server"]):
        names.append(spool.directory.name)
        spool.close()
    assert names == ["a", "b", "0"]


def test_directory_without_readable_owner_is_ignored(tmp_path):
    for content in ("", "[]", '{"app": "orders"}', '{"agent": "other"}'):
        directory = left_behind(tmp_path, str(uuid.uuid4()))
        (directory / "owner.json").write_text(content)
    assert list(orphans.orphans(tmp_path, OWNER["server"])) == []
    assert list(orphans.orphans(tmp_path / "nowhere", OWNER["server"])) == []


def test_file_system_without_locks_is_used_but_never_adopted_from(tmp_path, monkeypatch):
    def no_locks(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)
    left_behind(tmp_path, "a1")
    assert list((tmp_path / "a1").glob("*.events"))
    assert list(orphans.orphans(tmp_path, OWNER["server"])) == []


def test_only_old_and_empty_spools_are_deleted(tmp_path):
    other = dict(OWNER, app="clicks")
    make_old(left_behind(tmp_path, "old-empty", other, delivered=2))
    make_old(left_behind(tmp_path, "old-full", other))
    left_behind(tmp_path, "new-empty", other, delivered=2)
    living = Spool(tmp_path / "living", other)
    make_old(living.directory)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "photo").write_text("x")
    make_old(foreign)
    orphans.sweep(tmp_path, time.time())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["foreign", "living", "new-empty", "old-full"]
    assert [p.name for p in foreign.iterdir()] == ["photo"]
    living.close()


def test_damaged_records_are_kept_for_a_week_up_to_a_limit(tmp_path):
    paths = [tmp_path / f"{uuid.uuid4()}.damaged" for _ in range(30)]
    for index, path in enumerate(paths):
        path.write_text("x")
        os.utime(path, (time.time() - index,) * 2)
    os.utime(paths[0], (time.time() - 8 * 86400,) * 2)
    (tmp_path / "my.damaged").write_text("not ours")
    orphans.sweep(tmp_path, time.time())
    kept = {path.name for path in tmp_path.glob("*.damaged")} - {"my.damaged"}
    assert kept == {path.name for path in paths[1 : orphans.MAX_DAMAGED_FILES + 1]}
