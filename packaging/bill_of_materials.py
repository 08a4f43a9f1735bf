"""Write the bills of materials of both images (CycloneDX) and the licences of their packages: `python … dist`.

The packages are those of the lock files on the image's platform, with the hashes that pip checks. Licences and
dependencies come from the metadata of the packages in this environment; their versions are the same, except where a lock
file has one for each Python. The image's Debian packages are not listed: a scanner of images reads them. With
SOURCE_DATE_EPOCH the output is reproducible.
"""

from __future__ import annotations

import os
import re
import sys
import time
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
#: Lock file -> image.
LOCKS = {"image": "with Spark", "server": "without Spark"}
#: The platform of the image, for the markers of the lock files.
PLATFORM = {
    "python_version": "3.13",
    "python_full_version": "3.13.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "os_name": "posix",
}
_LICENSE_FILE = re.compile(r"(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)
Locked = dict[str, tuple[str, list[str]]]


def locked(text: str) -> Locked:
    """Name -> version and SHA-256 digests of each package of a lock file that the image has."""
    found: Locked = {}
    for entry in re.split(r"\n(?=[a-z0-9])", re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).strip()):
        requirement = Requirement(entry.replace("\\\n", "").split(" --hash")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate(PLATFORM):
            version = str(requirement.specifier).removeprefix("==")
            found[canonicalize_name(requirement.name)] = (
                version,
                re.findall(r"sha256:([0-9a-f]{64})", entry),
            )
    return found


def bill(packages: Locked, version: str, variant: str, now: float) -> Bom:
    """The bill of materials of an image with these packages."""
    product = Component(
        name="spark-controlplane",
        version=version,
        type=ComponentType.CONTAINER,
        description=f"Image {variant}",
    )
    product.bom_ref.value = product.name
    product.licenses.add(LicenseFactory().make_from_string("Apache-2.0"))
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, repr((version, variant, sorted(packages.items()))))
    )
    bom.metadata.component, bom.metadata.timestamp = product, datetime.fromtimestamp(now, UTC)
    components = {name: _component(name, *entry) for name, entry in packages.items()}
    for component in components.values():
        bom.components.add(component)
    bom.register_dependency(product, components.values())
    for name, component in components.items():
        needed = (components[other] for other in _needed(distribution(name)) if other in components)
        bom.register_dependency(component, needed)
    return bom


def _component(name: str, version: str, digests: Iterable[str]) -> Component:
    component = Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=name, version=version),
    )
    component.bom_ref.value = str(component.purl)
    for digest in digests:
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    if text := license_name(distribution(name)):
        made = LicenseFactory().make_from_string(
            text, license_acknowledgement=LicenseAcknowledgement.DECLARED
        )
        component.licenses.add(made)
    return component


def license_name(package: Distribution) -> str | None:
    """The licence that a package declares: an SPDX expression, else a short name, else that of its classifiers."""
    metadata = package.metadata
    classified = [
        c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier", []) if c.startswith("License ::")
    ]
    declared = (metadata.get("License") or "").strip()
    short = declared if declared and len(declared) < 80 and "\n" not in declared else None
    return metadata.get("License-Expression") or short or " AND ".join(classified) or None


def _needed(package: Distribution) -> Iterator[str]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({**PLATFORM, "extra": ""}):
            yield canonicalize_name(requirement.name)


def licenses(packages: Locked) -> str:
    """Name, version and declared licence of each package, and the texts that it ships."""
    parts = []
    for name, (version, _) in sorted(packages.items()):
        package = distribution(name)
        parts.append(f"{'=' * 80}\n{name} {version}: {license_name(package) or 'no licence declared'}\n")
        parts += [file.read_text() or "" for file in package.files or () if _LICENSE_FILE.search(file.name)]
    return "\n".join(parts)


def write(target: Path) -> list[Path]:
    """Write the files into `target`; returns their paths."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    now = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for lock, variant in LOCKS.items():
        packages = locked((ROOT / "requirements" / f"{lock}.txt").read_text())
        text = JsonV1Dot6(bill(packages, version, variant, now)).output_as_string(indent=2)
        if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
            raise ValueError(f"the bill of materials is not valid: {problem}")
        written.append(target / f"spark-controlplane-{version}-{lock}.cdx.json")
        written[-1].write_text(text + "\n", encoding="utf-8")
        if lock == "image":
            written.append(target / f"spark-controlplane-{version}-licenses.txt")
            written[-1].write_text(licenses(packages), encoding="utf-8")
    return written


if __name__ == "__main__":
    for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")):
        print(path)
