"""The table of kinds covers every cause that the product names, or says why not."""

from bench.incidents.kinds import KINDS
from sidecar.pod.causes import Cause


WITHOUT_A_KIND = {
    Cause.REJECTED: "the answer itself says so, and no evidence is weighed",
    Cause.SIDECAR_BUDGET: "a limit of the sidecar drops observations; no request is late, so no lane must page",
}


def test_every_cause_is_the_cause_of_some_kind_except_those_with_a_reason() -> None:
    assert {cause for kind in KINDS for cause in kind.causes} | set(WITHOUT_A_KIND) == set(Cause)
    assert not {cause for kind in KINDS for cause in kind.causes} & set(WITHOUT_A_KIND)
