"""The script of the status page: every 5 s it fetches the page and replaces changed parts. The page works without it.

Knows elements marked `data-live` and their ids, and refuses to know their content. Keeps scroll position, focus,
selection and unfolded parts. On a small screen it folds the parts that a person on call reads last, when the page is opened. If the sidecar does not answer, the script shows for how long, so that an old page is not
read as a new one. Without JavaScript the page reloads itself (`page.py`).
"""

SCRIPT = """
"use strict";
(() => {
  const EVERY = 5000;
  const stale = document.getElementById("stale");
  const last = new Map();
  let heard = Date.now();
  let timer = 0;

  if (matchMedia("(max-width: 600px)").matches) {
    for (const part of document.querySelectorAll("details.folds")) part.open = false;
  }

  const named = (element) => element.id || element.getAttribute("href") || element.parentElement.id;

  const busy = (part) => {
    const selection = getSelection();
    return !selection.isCollapsed && selection.containsNode(part, true);
  };

  const swap = (part, next) => {
    const focused = part.contains(document.activeElement) ? named(document.activeElement) : null;
    for (const now of part.querySelectorAll("details[id]")) {
      const then = [...next.querySelectorAll("details[id]")].find((one) => one.id === now.id);
      if (then) then.open = now.open;
    }
    for (const name of ["class", "data-phase"]) {
      if (next.hasAttribute(name)) part.setAttribute(name, next.getAttribute(name));
      else part.removeAttribute(name);
    }
    part.replaceChildren(...document.importNode(next, true).childNodes);
    if (focused) {
      const again = [...part.querySelectorAll("a, summary")].find((one) => named(one) === focused);
      if (again) again.focus({ preventScroll: true });
    }
  };

  const show = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const parts = [...document.querySelectorAll("[data-live]")];
    const first = parts.find((part) => part.getBoundingClientRect().bottom > 0);
    const top = first && first.getBoundingClientRect().top;
    for (const part of parts) {
      const next = fresh.getElementById(part.id);
      if (!next || busy(part)) continue;
      const drawn = next.outerHTML;
      if (last.get(part.id) !== drawn) {
        swap(part, next);
        last.set(part.id, drawn);
      }
    }
    document.title = fresh.title;
    if (scrollY > 0 && first) scrollBy(0, first.getBoundingClientRect().top - top);
  };

  const again = async () => {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(EVERY * 2) });
        if (!answer.ok) throw new Error(String(answer.status));
        show(await answer.text());
        heard = Date.now();
        stale.textContent = "";
      } catch {
        const seconds = Math.round((Date.now() - heard) / 1000);
        stale.textContent = `The sidecar does not answer: this page is ${seconds} s old.`;
      }
    }
    timer = setTimeout(again, EVERY);
  };

  document.addEventListener("visibilitychange", () => { if (!document.hidden) again(); });
  timer = setTimeout(again, EVERY);
})();
""".strip()
