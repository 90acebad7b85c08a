"""`python -m tests.alert_rules.books`: write the books to alert_rules/tests/, for `promtool test rules alert_rules/tests/*.yml`."""

from tests.alert_rules.books import written
from tests.alert_rules.promtool import TESTS


for name, text in written().items():
    (TESTS / name).write_text(text)
    print(TESTS / name)  # noqa: T201  a command's output
for stale in {path.name for path in TESTS.glob("*.yml")} - set(written()):
    (TESTS / stale).unlink()
