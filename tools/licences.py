"""The licences of all that the image and the wheels bring: a list of packages with their licences, then the texts.

It reads the metadata of an environment (PEP 639's `License-Expression` and `License-File`, or what older packages have: `License` and
classifiers), and every file in a package's `.dist-info` that is named after a licence. A package that states no licence, or brings no
text, is an error: no list would be better than one with a hole. What a package has linked into its own binaries stands in that
package's texts, and what the base image of the Dockerfile has is not in the list.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


_NAMED = re.compile(r"\.dist-info/(?:.*/)?(?:LICEN[CS]E|COPYING|NOTICE|AUTHORS)[^/]*$", re.IGNORECASE)
_LONGEST_NAME = 60
"""Letters of a `License` field that is a name; some packages have put the whole text there."""
_RULE = "-" * 100


class LicenceError(Exception):
    """A package without a licence or without its text; the message names all of them."""


@dataclass(frozen=True, slots=True)
class Licence:
    """One package. `texts`: path in the package to text."""

    name: str
    version: str
    stated: str
    texts: Mapping[str, str]


def installed(site: Path) -> dict[str, Distribution]:
    """The packages below a `site-packages`, by their normalised name."""
    return {canonicalize_name(each.name): each for each in distributions(path=[str(site)])}


def needed(requirements: Iterable[str], found: Mapping[str, Distribution], environment: Mapping[str, str]) -> set[str]:
    """The normalised names of these packages and of all that they need there, as the installed ones say, extras among them.

    `environment`: markers that differ from those of this Python, such as `python_version`.
    """
    names = set[str]()
    asked = set[tuple[str, str]]()
    waiting = [(Requirement(each), "") for each in requirements]
    while waiting:
        of, extra = waiting.pop()
        if of.marker is not None and not of.marker.evaluate({**environment, "extra": extra}):
            continue
        name = str(canonicalize_name(of.name))
        names.add(name)
        for wanted in ("", *of.extras):
            if (name, wanted) not in asked and name in found:
                asked.add((name, wanted))
                waiting += [(Requirement(each), wanted) for each in found[name].requires or ()]
    return names


def licences(found: Mapping[str, Distribution], names: Iterable[str]) -> list[Licence]:
    """Those of these packages, by name. Raises LicenceError, also for a package that is not installed."""
    told, wrong = [], []
    for name in sorted(names):
        if name not in found:
            wrong.append(f"{name} is not installed")
            continue
        one = _licence(found[name])
        told.append(one)
        wrong += [f"{name} {one.version} states no licence"] if not one.stated else []
        wrong += [f"{name} {one.version} brings no text of its licence"] if not one.texts else []
    if wrong:
        raise LicenceError("\n".join(wrong))
    return told


def page(told: Iterable[Licence]) -> str:
    """The list, then each text under its package."""
    told = list(told)
    rows = [f"{one.name} {one.version}: {one.stated}" for one in told]
    texts = [
        f"{_RULE}\n{one.name} {one.version}, {path}\n{_RULE}\n\n{text.strip()}\n"
        for one in told
        for path, text in one.texts.items()
    ]
    return "\n".join([*rows, "", *texts])


def _licence(of: Distribution) -> Licence:
    def field(name: str) -> str:
        return next(iter(of.metadata.get_all(name) or ()), "").strip()

    short = field("License")
    classifiers = of.metadata.get_all("Classifier") or ()
    older = ", ".join(each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::"))
    stated = field("License-Expression") or (short if len(short) <= _LONGEST_NAME else "") or older
    files = sorted(each for each in of.files or () if _NAMED.search(str(each)))
    texts = {str(each).partition(".dist-info/")[2]: each.read_text("utf-8") for each in files}
    return Licence(canonicalize_name(of.name), of.version, stated, texts)
