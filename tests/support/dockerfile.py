"""The Dockerfile, instruction by instruction.

It knows the form of the project's own Dockerfile. `tools/image.py` builds the image.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.wheels import image_python


CHECKOUT = Path(__file__).parents[2]
DOCKERFILE = CHECKOUT / "Dockerfile"


@dataclass
class Stage:
    """One `FROM` with what follows it."""

    image: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        """The arguments of each instruction of this name, in order."""
        return [argument for name, argument in self.instructions if name == keyword]


def stages() -> list[Stage]:
    """The stages of the Dockerfile, without comments, each instruction in one line."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    base = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    found: list[Stage] = []
    for line in text.splitlines():
        keyword, _, argument = line.partition(" ")
        if keyword == "FROM":
            image = argument.split()[0].replace("${BASE}", base[0])
            found.append(Stage(image.replace("${PYTHON}", image_python())))
        elif keyword and found:  # the arguments PYTHON and BASE stand before
            found[-1].instructions.append((keyword, " ".join(argument.split())))
    return found
