"""The server's certificate: what is refused at the start, and what a renewal keeps. Served: tests/security/test_tls.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.errors import SettingsError
from controlplane.runtime.certificate import ServerCertificate, certificate_of
from controlplane.settings import Settings
from tests.certificates import Authority, encrypted_key


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> tuple[Path, Path]:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.issue(cert, key)
    return cert, key


def test_a_changed_pair_is_loaded_once_and_its_expiry_is_known(
    files: tuple[Path, Path], authority: Authority
) -> None:
    loaded = ServerCertificate(*files)
    context = loaded.context
    assert not loaded.renew()
    authority.issue(*files)
    assert loaded.renew()
    assert not loaded.renew()
    assert loaded.context is context
    assert loaded.figures()["tls_renewal_failures"] == 0
    assert loaded.expires_at > Path(files[0]).stat().st_mtime


def test_a_renewal_that_cannot_be_used_keeps_the_old_pair_and_is_counted(
    files: tuple[Path, Path], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    loaded, before = ServerCertificate(*files), files[1].read_bytes()
    files[1].write_bytes(encrypted_key())
    assert not loaded.renew()
    assert not loaded.renew()  # reported once
    files[0].unlink()
    assert not loaded.renew()
    assert loaded.failures == 2
    assert "the old one stays" in caplog.text
    authority.issue(*files)
    assert loaded.renew()
    assert files[1].read_bytes() != before


@pytest.mark.parametrize("damage", ["mismatch", "no PEM", "encrypted", "missing"])
def test_files_that_do_not_fit_are_a_clear_error_at_the_start(
    files: tuple[Path, Path], authority: Authority, tmp_path: Path, damage: str
) -> None:
    cert, key = files
    if damage == "mismatch":
        authority.issue(tmp_path / "other.crt", key)
    elif damage == "missing":
        key.unlink()
    else:
        key.write_bytes(encrypted_key() if damage == "encrypted" else b"nonsense")
    expected = {
        "mismatch": "is not the key of",
        "no PEM": "no PEM file",
        "encrypted": "encrypted",
        "missing": "No such",
    }
    with pytest.raises(SettingsError, match=expected[damage]):
        certificate_of(Settings(tls_cert=cert, tls_key=key))
    assert certificate_of(Settings()) is None
