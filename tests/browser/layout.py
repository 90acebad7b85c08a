"""Layout faults, measured in the page: text that sticks out, overlaps, is cut off, or cannot be read on its background.

Each check is a JavaScript expression that gives a list of complaints in words. The list is empty if the page is well
laid out.
"""

NAMED = ("headline", "two-numbers", "anatomy", "verdict", "table")

_COMPLAINTS = """
(() => {
  const told = [];
  const width = document.documentElement.clientWidth;
  const say = (what, element) => told.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const box = (element) => element.getBoundingClientRect();
  if (document.documentElement.scrollWidth > width) told.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
  const named = NAMED.map((name) => document.getElementById(name));
  for (const [number, element] of named.entries()) {
    if (!element) { told.push(`there is no #${NAMED[number]}`); continue; }
    const { left, right, top, bottom } = box(element);
    if (left < 0 || right > width) say("outside the window", element);
    if (bottom - top < 20) say("nothing to see", element);
    if (element.scrollWidth > element.clientWidth + 1) say("cut off or scrolled", element);
    for (const other of named.slice(number + 1)) {
      if (!other) continue;
      const its = box(other);
      if (left < its.right && its.left < right && top < its.bottom && its.top < bottom) say(`overlaps #${other.id}`, element);
    }
  }
  for (const element of document.querySelectorAll("main *")) {
    if (element.closest("svg, caption") || !element.getClientRects().length) continue;
    const { left, right } = box(element);
    if (left < -0.5 || right > width + 0.5) say("sticks out of the window", element);
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== "visible") say("hides a part", element);
    const cell = element.closest("td, th");
    if (cell && cell !== element && right > box(cell).right + 1) say("sticks out of its cell", element);
  }
  for (const text of document.querySelectorAll("svg text")) {
    if (getComputedStyle(text).display !== "none" && box(text).right > box(text.previousElementSibling).right + 1) say("longer than its bar", text);
  }
  for (const cell of document.querySelectorAll("td, th")) {
    const range = document.createRange();
    range.selectNodeContents(cell);
    if (cell.getClientRects().length && range.getBoundingClientRect().right > box(cell).right + 1) say("text sticks out of its cell", cell);
  }
  return told;
})()
"""


def complaints(*named: str) -> str:
    """The expression for a page that has these parts, one below the other."""
    return _COMPLAINTS.replace("NAMED", str(list(named)))


COMPLAINTS = complaints(*NAMED)
"""The expression for the status page."""

FAINT = """
(() => {
  const told = [];
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => part / 255).map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("svg, caption, script, noscript") || !element.getClientRects().length) continue;
    const [high, low] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) told.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 100)}`);
  }
  return told;
})()
"""
"""Text whose contrast with its background is below 4.5 to 1 (WCAG 2.2, 1.4.3)."""
