"""The colour of each phase, from Okabe and Ito's palette: the same on the status page and on every dashboard, so that one learns it once.

Colour-blind readers can tell them apart, and neighbours in the stack of phases differ in lightness, so that a print in grey can be
read too. Unattributed is grey, because its cause is unknown. Refuses to know panels and pages.
"""

from collections.abc import Mapping

from sidecar.objectives.attribution import SIDECAR, Blame


PHASE_COLOURS: Mapping[str, str] = {
    Blame.QUEUE.value: "#E69F00",
    Blame.PREFILL.value: "#0072B2",
    Blame.FIRST_TOKEN.value: "#56B4E9",
    Blame.UNATTRIBUTED.value: "#666666",
    Blame.DECODE.value: "#CC79A7",
    Blame.STREAM.value: "#F0E442",
    Blame.ENGINE.value: "#D55E00",
    SIDECAR: "#009E73",
}
"""In the order of the stack."""
_DARK, _LIGHT = "#000000", "#ffffff"


def text_on(colour: str) -> str:
    """Black or white: the one that contrasts more with this colour (WCAG 2.2, contrast ratio)."""
    black, white = ((_luminance(colour) + 0.05) / 0.05, 1.05 / (_luminance(colour) + 0.05))
    return _DARK if black > white else _LIGHT


def _luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 to 1 (WCAG 2.2)."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
