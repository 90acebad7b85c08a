"""Judges Prometheus: whether it answers, scrapes this very process, and which labels its series carry.

A process is recognised by `process_start_time_seconds`: the value on its own page, and the value that Prometheus keeps. Addresses
are no proof, because a Service or a port of another pod answers as well. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sidecar.commands.doctor.clusters_apart import identity_labels, merged_in_series
from sidecar.commands.doctor.expected_rules import ours
from sidecar.commands.doctor.gathered import Read, seconds
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok, unknown, unread
from sidecar.commands.export.expression_names import grouped_by, labels_made, metrics_in
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import CATALOGUE, MODEL
from sidecar.metrics.target_labels import CLUSTER
from sidecar.metrics.vocabulary import LONGEST_SCRAPE_INTERVAL_SECONDS


SAME_START_SECONDS = 0.005
"""Difference of two start times below which they are one process's: the kernel counts them in hundredths of a second."""
_ADMIN_PORT = "9901"
"""That of the default web.listen_address."""
NEAR_THE_LIMIT = 0.8
"""Share of a sample_limit above which more lanes or models make Prometheus drop the whole page."""
SCRAPE_SLACK_SECONDS = 5.0
"""A scrape takes a while, and its interval is kept to within that."""


def own_targets(read: Read) -> list[Mapping[str, str]]:
    """The labels of every target of Prometheus that is this very process, or may be.

    Processes of several pods can begin at the same instant, as after a node comes back. Then the address tells, if it is the one
    that was asked; else all of them are given.
    """
    started = read.started_at
    if started is None:
        return []
    found: list[Mapping[str, str]] = [
        {name: value for name, value in labels.items() if name != "__name__"}
        for labels, value in read.evidence.prometheus["sidecars"].samples
        if abs(value - started) < SAME_START_SECONDS
    ]
    if _are_several_pods(found):
        asked = urlsplit(read.evidence.sidecar_url).netloc
        return [one for one in found if one.get("instance") == asked] or found
    return found


def _are_several_pods(targets: Sequence[Mapping[str, str]]) -> bool:
    """One process that is scraped several times has one pod, under whatever address and job."""
    return len({tuple(one.get(name) for name in _WHICH_PROCESS) for one in targets}) > 1 and all(
        one.get("pod") for one in targets
    )


_WHICH_PROCESS = (CLUSTER, "namespace", "pod")


def prometheus(read: Read, _chain: Chain) -> Finding:
    replies = read.evidence.prometheus
    if not replies:
        return not_asked(Link.PROMETHEUS, "--prometheus.url")
    now = replies["now"]
    if not now.good:
        return broken(Link.PROMETHEUS, now.told, "start Prometheus, or correct --prometheus.url")
    _ = read.prometheus_now
    return ok(Link.PROMETHEUS, f"{urlsplit(now.where).netloc} answers queries")


def scrape(read: Read, chain: Chain) -> Finding:
    if waits := chain.waits(Link.SCRAPE, Link.SIDECAR, Link.PROMETHEUS):
        return waits
    if read.evidence.page is None or not read.evidence.page.good:
        return unknown(Link.SCRAPE, "no sidecar answers yet", "start the sidecar, or give --sidecar.url")
    if not read.evidence.prometheus:
        return _by_its_own_page(read)
    mine = own_targets(read)
    if not mine:
        return _not_scraped(read)
    if _are_several_pods(mine):
        names = ", ".join(f"{one['pod']} at {one.get('instance', '?')}" for one in mine)
        return unknown(
            Link.SCRAPE,
            f"{len(mine)} processes began at the same instant ({names}), and which of them answered here cannot be told",
            "ask at the address at which Prometheus scrapes it: --sidecar.url=http://ADDRESS:PORT",
        )
    if len(mine) > 1:
        twice = ", ".join(f"job {one.get('job', '?')} at {one.get('instance', '?')}" for one in mine)
        return broken(
            Link.SCRAPE,
            f"this process is scraped {len(mine)} times, so that each sum counts it as often: {twice}",
            "keep one of these targets: a PodMonitor or a ServiceMonitor or a scrape_config, not several",
        )
    return _of_target(read, mine[0])


def _by_its_own_page(read: Read) -> Finding:
    """Without a Prometheus to ask: the age of the last scrape, by the sidecar's own clock."""
    age, flag = read.page.value(c.SCRAPE_AGE_SECONDS.name), "--prometheus.url"
    started, asked = read.started_at, read.evidence.page
    assert asked is not None
    silent = age
    if age is None and started is not None:
        silent = asked.at + (asked.skew_seconds or 0.0) - started
    if silent is not None and silent >= LONGEST_SCRAPE_INTERVAL_SECONDS + SCRAPE_SLACK_SECONDS:
        never = " since the process began" if age is None else ""
        return broken(
            Link.SCRAPE,
            f"no scrape for {silent:.0f} s{never}",
            f"let Prometheus scrape {read.evidence.sidecar_url}/metrics (docs/attach.md); {flag} shows what it tried",
        )
    said = (
        "no scrape yet" if age is None else f"something scraped the page {age:.0f} s ago; whether it is your Prometheus"
    )
    return unknown(Link.SCRAPE, f"{said}{'' if age is None else ' is not known'}: {flag} is not given", f"give {flag}")


def _not_scraped(read: Read) -> Finding:
    targets = read.evidence.prometheus["targets"].data["activeTargets"]
    failing = _ours_that_are_down(targets, urlsplit(read.evidence.sidecar_url).netloc)
    if failing:
        return broken(
            Link.SCRAPE,
            f"the scrape of {failing[0]['scrapeUrl']} fails: {failing[0]['lastError']}",
            _remedy(failing[0]["lastError"]),
        )
    others = read.evidence.prometheus["sidecars"].samples
    times = {labels.get("instance"): value for labels, value in read.evidence.prometheus["scraped_at"].samples}
    started = read.started_at or 0.0
    before = [labels for labels, _ in others if times.get(labels.get("instance"), 0.0) < started]
    pending = [one for one in targets if one["health"] == "unknown"]
    down = next((one for one in targets if one["health"] == "down"), None)
    young = read.prometheus_now - started < LONGEST_SCRAPE_INTERVAL_SECONDS
    if young and (before or pending or not (others or down)):
        return unknown(
            Link.SCRAPE, "not scraped since it started, less than a minute ago", "run the doctor again in a minute"
        )
    if others:
        names = ", ".join(sorted(str(labels.get("instance")) for labels, _ in others)[:5])
        return broken(
            Link.SCRAPE,
            f"Prometheus scrapes {len(others)} other sidecar process{'es' if len(others) > 1 else ''} ({names}), not this one",
            "let it scrape each pod itself, not a Service or another port; compare address and port of its targets",
        )
    example = "" if down is None else f"; {down['scrapeUrl']} is down: {down['lastError']}"
    return broken(
        Link.SCRAPE,
        f"no target of Prometheus is a sidecar, out of {len(targets)}{example}",
        "add a scrape_config or a PodMonitor; with kube-prometheus-stack it needs the label release: NAME (docs/attach.md)",
    )


def _ours_that_are_down(targets: Sequence[Mapping[str, Any]], asked: str) -> list[Mapping[str, Any]]:
    """The targets that exist, are down and may be this process, the likeliest first: of its address, of its names, of its port."""
    found = []
    for target in (one for one in targets if one["health"] == "down"):
        labels, at = target["labels"], urlsplit(target["scrapeUrl"]).netloc
        named = labels.get("container") == "sidecar" or labels.get("endpoint") == "admin"
        by_port = at.rpartition(":")[2] in (asked.rpartition(":")[2], _ADMIN_PORT)
        signs = at == asked, named, by_port and "proxy" not in labels.get("container", "")  # 9901 is Envoy's too
        if any(signs):
            found.append((signs, target))
    return [target for _, target in sorted(found, key=lambda one: one[0], reverse=True)]


_REMEDIES = (
    (
        "refused",
        "nothing listens there: see whether the pod runs, and whether web.listen_address has this port and is not a loopback address",
    ),
    (
        "deadline|timeout|no route|unreachable",
        "a NetworkPolicy or a firewall may keep Prometheus out: let it reach the admin port (docs/attach.md)",
    ),
    ("no such host", "the name has no address: let Prometheus scrape the pods' own addresses (docs/attach.md)"),
    (
        "status (429|503)",
        "too much asks it at once, or a proxy on the way refuses: let no more than two Prometheus scrape it",
    ),
    ("status 421", "add the host by which Prometheus asks to web.allowed_hosts (docs/access.md)"),
    ("status 40[13]", "give Prometheus the user and the password of the admin side (docs/access.md)"),
    (
        "limit exceeded|exceeds",
        "raise sample_limit, body_size_limit or the label limits of this scrape_config; `sidecar check` says how many series there are",
    ),
    (
        "tls:|x509|malformed HTTP|HTTP response to HTTPS",
        "let scheme and tls_config of the scrape_config fit the admin side (docs/access.md)",
    ),
    (
        "EOF|reset by peer",
        "something between them ends the connection, such as a mesh that demands its own TLS: keep the admin port out of it (docs/attach.md)",
    ),
    (
        "status |start token|Content-Type|invalid|unsupported",
        "let metrics_path be /metrics and the port that of the admin side: another server answers there",
    ),
)
"""Words of Prometheus' `lastError`, and what to do: the first that is found holds."""


def _remedy(error: str) -> str:
    said = error.rpartition('/metrics": ')[2]  # an address has any words in it
    found = (do for words, do in _REMEDIES if re.search(words, said))
    return next(found, "let it reach the admin port: address, port, NetworkPolicy")


def _of_target(read: Read, mine: Mapping[str, str]) -> Finding:
    evidence = read.evidence.prometheus
    target = next(
        (one for one in evidence["targets"].data["activeTargets"] if _is(one["labels"], mine)),
        {"scrapeInterval": "0s", "scrapePool": mine.get("job", ""), "scrapeUrl": mine.get("instance", "")},
    )
    interval = seconds(target.get("scrapeInterval", "0s"))
    if interval > LONGEST_SCRAPE_INTERVAL_SECONDS:
        return broken(
            Link.SCRAPE,
            f"it is scraped every {target['scrapeInterval']}, and the rules' shortest windows need two scrapes within 2 minutes",
            f"set scrape_interval of job {target['scrapePool']} to 15s, at most 60s",
        )
    limit = _sample_limit(read.prometheus_config if evidence["config"].good else {}, str(target["scrapePool"]))
    samples = evidence["scraped"].samples if "scraped" in evidence and evidence["scraped"].good else []
    if limit and samples and samples[0][1] > NEAR_THE_LIMIT * limit:
        return broken(
            Link.SCRAPE,
            f"the page has {samples[0][1]:.0f} samples of sample_limit {limit}: a few more, and Prometheus drops it whole",
            f"raise sample_limit of job {target['scrapePool']}; `sidecar check` says how many series a config can reach",
        )
    lost = not_kept(read)
    if lost and not read.evidence.next_scrape_came:
        return unknown(
            Link.SCRAPE,
            f"Prometheus does not have {len(lost)} series that rules read, and no scrape came that could have brought them: {', '.join(lost[:4])}",
            "run the doctor again in a minute",
        )
    if lost:
        return broken(
            Link.SCRAPE,
            f"{len(lost)} series that rules read are dropped on the way: {', '.join(lost[:4])}",
            f"correct metric_relabel_configs of job {target['scrapePool']}",
        )
    if missing := unread(
        Link.SCRAPE, (evidence[name] for name in ("rules", "config", "scraped", "kept") if name in evidence)
    ):
        return missing
    every = f" every {target['scrapeInterval']}" if interval else ""
    return ok(Link.SCRAPE, f"this very process is scraped{every}, once: job {mine.get('job')}, {mine.get('instance')}")


def _is(labels: Mapping[str, str], mine: Mapping[str, str]) -> bool:
    return all(labels.get(name) == mine.get(name) for name in ("job", "instance"))


def _sample_limit(told: Mapping[str, Any], job: str) -> int:
    """`sample_limit` of a job, or the global one; 0 if there is none."""
    limits = [one.get("sample_limit", 0) for one in told.get("scrape_configs") or () if one.get("job_name") == job]
    return int(next(iter(limits), 0) or (told.get("global") or {}).get("sample_limit", 0))


def not_kept(read: Read) -> list[str]:
    """The series that are on this process's page and read by a loaded rule, and that Prometheus does not keep."""
    evidence = read.evidence.prometheus
    if "kept" not in evidence or not evidence["kept"].good:
        return []
    kept = {labels["__name__"] for labels, _ in evidence["kept"].samples}
    needed = {name for rule in ours(read.groups) for name in metrics_in(rule["query"])}
    return sorted((needed & read.page.names) - kept)


def labels(read: Read, chain: Chain) -> Finding:
    if waits := chain.waits(Link.LABELS, Link.PROMETHEUS, Link.SIDECAR, Link.SCRAPE):
        return waits
    if not read.evidence.prometheus:
        return not_asked(Link.LABELS, "--prometheus.url")
    rules, mine = ours(read.groups), own_targets(read)
    if not rules:
        return chain.waits(Link.LABELS, Link.RULES) or unknown(Link.LABELS, "no rule is loaded", "load the rules")
    if not mine:
        return unknown(Link.LABELS, "it is not scraped yet", "run the doctor again in a minute")
    grouped = {name for rule in rules for name in grouped_by(rule["query"])}
    identity = identity_labels(rules)
    made = {name for rule in rules if rule["type"] == "recording" for name in rule.get("labels", {})}
    made.update(*(labels_made(rule["query"]) for rule in rules))
    # Series by model begin when the engine has told its models: until then their labels are not on the page.
    ours_to_give = read.page.label_names.union(label.name for metric in CATALOGUE for label in metric.labels)
    needed = sorted(grouped - ours_to_give - made)
    # A label that is absent is empty: most fleets have one cluster, and no label for it.
    carried = [name for name in needed if mine[0].get(name)]
    missing = sorted({*needed} - {*carried, *identity})
    shadowed = sorted((mine[0].keys() - set(needed)) & (read.page.label_names | {MODEL.name}))
    if missing:
        return broken(
            Link.LABELS,
            f"the rules group by {', '.join((*carried, *missing))}; this target has no label {', '.join(missing)}",
            "relabel in Prometheus (__meta_kubernetes_namespace, __meta_kubernetes_pod_name), or set static labels; a PodMonitor"
            " does it by itself",
        )
    if mine[0].get(CLUSTER) and not any(mine[0].get(name) for name in identity):
        return broken(
            Link.LABELS,
            f"this target has {CLUSTER}={mine[0][CLUSTER]}, and the loaded rules do not group by it: several clusters are one to them",
            "load the rules and the routes of this version: sidecar export all",
        )
    if merged := merged_in_series(read, identity):
        return broken(Link.LABELS, *merged)
    if shadowed:
        return broken(
            Link.LABELS,
            f"the target sets {', '.join(shadowed)}, which the page has too: Prometheus renames the page's to"
            f" exported_{shadowed[0]}",
            "take these labels off the target (relabel_configs, podTargetLabels), or set honor_labels: true",
        )
    return ok(Link.LABELS, f"this target has {', '.join(f'{name}={mine[0][name]}' for name in carried)}")
