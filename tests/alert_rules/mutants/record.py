"""The record of the last complete run: a digest of all that its result depends on.

The run is the same each time that rules, scenarios, mistakes and promtool are the same, and takes ten minutes. So CI plays it only where
this record is of something else. Knows which texts these are, and nothing of the result.
"""

import json
import subprocess
from hashlib import sha256
from pathlib import Path

from tests.alert_rules.promtool import RULES
from tests.alert_rules.suites import SUITES
from tests.alert_rules.syntax import FILES


HERE = Path(__file__).parent
RECORD = HERE / "record.json"
_WHERE_RULES_ARE = str(RULES)


def digest() -> str:
    """A digest of the rules, the scenarios, the code that makes and plays the mistakes, and the version of promtool."""
    asked = subprocess.run(["promtool", "--version"], capture_output=True, text=True, check=True)
    version = asked.stdout.partition("\n")[0]
    code = sorted(set(HERE.glob("*.py")) - {Path(__file__)}) + [
        HERE.parent / name for name in ("promtool.py", "syntax.py", "alert_table.py")
    ]
    texts = [
        version,
        *((RULES / name).read_text() for name in FILES),
        *(suite.text().replace(_WHERE_RULES_ARE, "alert_rules") for suite in SUITES),
    ]
    return sha256("\0".join([*texts, *(path.read_text() for path in code)]).encode()).hexdigest()


def is_recorded() -> bool:
    """Whether a complete run on exactly this succeeded."""
    return RECORD.exists() and bool(json.loads(RECORD.read_text())["digest"] == digest())


def write(mutants: int) -> None:
    """Record a complete run on what is here now."""
    RECORD.write_text(json.dumps({"digest": digest(), "mutants": mutants}, indent=1) + "\n")
