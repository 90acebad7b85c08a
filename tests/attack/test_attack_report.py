"""The report of `sidecar attack`: each hop, each family, the reason of a failure, and whether an origin recorded."""

from sidecar.attack.attack_report import FamilyVerdict, HopReport, Verdict, report_document, report_text


HOPS = [
    HopReport("edge", "127.0.0.1:80", [FamilyVerdict("framing", Verdict.PASS, 2100)]),
    HopReport(
        "old",
        "127.0.0.1:81",
        [
            FamilyVerdict("framing", Verdict.FAIL, 2100, 3, "the origin read 2 requests"),
            FamilyVerdict("answers", Verdict.NOT_JUDGED, 0, reason="needs --origin-listen"),
            FamilyVerdict("slow-heads", Verdict.PASS, 1, reason="9 other requests answered"),
        ],
    ),
]


def test_a_person_reads_one_line_a_family() -> None:
    assert report_text(HOPS, recorded=True, columns=80).splitlines() == [
        "hop edge (127.0.0.1:80): pass",
        "  framing  pass        2100 attacks",
        "",
        "hop old (127.0.0.1:81): FAIL",
        "  framing     FAIL        3 of 2100: the origin read 2 requests",
        "  answers     not judged  needs --origin-listen",
        "  slow-heads  pass        1 attack: 9 other requests answered",
    ]


def test_a_script_reads_the_same() -> None:
    document = report_document(HOPS, recorded=True, seed=11)

    assert (document["passed"], document["origin_recorded"], document["seed"]) == (False, True, 11)
    assert [hop["passed"] for hop in document["hops"]] == [True, False]
    assert document["hops"][1]["families"][0] == {
        "family": "framing",
        "verdict": "fail",
        "attacks": 2100,
        "faults": 3,
        "reason": "the origin read 2 requests",
    }
