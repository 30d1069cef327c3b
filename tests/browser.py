"""A headless Chromium, driven over its debugging pipe with the standard library alone.

Pages are opened from files or from text; what a reader would run into is collected: errors on the
console, exceptions, requests that fail or leave the machine, pictures that do not load, sideways
scrolling, and text whose contrast is too low to read.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome",
)
PATIENCE = 60.0  # seconds for one answer, on a busy machine
AA_NORMAL, AA_LARGE = 4.5, 3.0  # WCAG 2.1, contrast of text

# Widths beyond the window, and what is to blame for them. A box that scrolls on its own is fine.
SCROLL = """(() => {
  const wide = document.documentElement.clientWidth;
  const inner = (e) => {
    for (let p = e.parentElement; p; p = p.parentElement)
      if (p !== document.body && /auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX))
        return true;
    return false;
  };
  const guilty = [...document.body.querySelectorAll('*')]
    .filter((e) => e.getBoundingClientRect().right > wide + 1 && !inner(e))
    .slice(0, 5).map((e) => e.tagName.toLowerCase() + '.' + (e.className.baseVal ?? e.className));
  return {excess: document.documentElement.scrollWidth - wide, guilty};
})()"""

PICTURES = """[...document.images].filter((i) => !i.complete || i.naturalWidth === 0)
  .map((i) => i.getAttribute('src').slice(0, 80))"""

# Every visible text against the first opaque background behind it.
CONTRAST = """(() => {
  const parse = (c) => [...c.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (f, b) => [0, 1, 2].map((i) => f[i] * f[3] + b[i] * (1 - f[3]));
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches
    && /dark/.test(getComputedStyle(document.documentElement).colorScheme);
  const behind = (e) => {
    const seen = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      seen.push(c);
      if (c[3] === 1) break;
    }
    let base = dark ? [18, 18, 18] : [255, 255, 255];
    for (const c of seen.reverse()) base = over(c, base);
    return base;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    if (!n.data.trim()) continue;
    const e = n.parentElement, s = getComputedStyle(e);
    if (/^(script|style|template|title|desc|metadata)$/i.test(e.tagName)) continue;
    if (!e.getClientRects().length || s.visibility === 'hidden') continue;
    const back = behind(e), inSvg = e instanceof SVGElement;
    const fore = over(parse(inSvg ? s.fill : s.color), back);
    const [a, b] = [light(fore), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(s.fontSize), bold = parseInt(s.fontWeight) >= 700;
    const needed = size >= 24 || (size >= 18.66 && bold) ? AA_LARGE : AA_NORMAL;
    if (ratio < needed) poor.push([n.data.trim().slice(0, 40), Math.round(ratio * 100) / 100]);
  }
  return poor;
})()""".replace("AA_LARGE", str(AA_LARGE)).replace("AA_NORMAL", str(AA_NORMAL))


def find() -> str | None:
    """The browser to test with: MOMENTRON_CHROMIUM, or one of the usual names; None without."""
    if os.name == "nt":  # which has no such pipes
        return None
    named = os.environ.get("MOMENTRON_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Look:
    """What a reader of one page runs into."""

    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    excess: int = 0
    guilty: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    poor_contrast: list[list[Any]] = field(default_factory=list)


class Browser:
    """A context manager; one browser serves many pages."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or find()
        self._number = 0
        self._buffer = b""
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        assert self._path is not None
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        # the browser reads commands from descriptor 3 and answers on 4
        command = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        options = [
            "--headless",
            "--no-sandbox",  # continuous integration runs as root; the pages are our own
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]
        ends = (str(to_child), str(from_child))
        self._process = subprocess.Popen(
            ["bash", "-c", command, "browser", *ends, self._path, *options, "about:blank"],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def look(
        self,
        page: Path | str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        shot: Path | None = None,
        contrast: bool = True,
    ) -> Look:
        """Open a page (a file, or an address) and collect what a reader runs into.

        `scripts=False` turns the page's own scripts off. `shot` is where a picture of the whole
        page goes.
        """
        url = page if isinstance(page, str) else page.resolve().as_uri()
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = session["sessionId"]
        self._events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._call("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        self._call("Page.navigate", {"url": url})
        self._await("Page.loadEventFired")
        self._settle()
        seen = self._what_happened()
        # the page is now at rest; with its scripts off, ours need them on again
        self._call("Emulation.setScriptExecutionDisabled", {"value": False})
        scroll = self.evaluate(SCROLL)
        seen.excess, seen.guilty = scroll["excess"], scroll["guilty"]
        seen.broken = self.evaluate(PICTURES)
        seen.poor_contrast = self.evaluate(CONTRAST) if contrast else []
        if shot is not None:
            self._shoot(shot)
        self._call("Target.closeTarget", {"targetId": target}, session=False)
        return seen

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page that is open."""
        answer = self._call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def _shoot(self, path: Path) -> None:
        options = {"format": "png", "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", options)["data"]))

    def _settle(self) -> None:
        """Give scripts and pictures that come late a moment."""
        end = time.monotonic() + 0.3
        while (left := end - time.monotonic()) > 0.0:
            if select.select([self._read], [], [], left)[0]:
                self._events.append(self._message())

    def _what_happened(self) -> Look:
        seen = Look()
        for event in self._events:
            name, what = event.get("method"), event.get("params", {})
            if name == "Runtime.exceptionThrown":
                seen.problems.append(f"exception: {what['exceptionDetails'].get('text')}")
            elif name == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert"):
                words = [str(a.get("value", a.get("description"))) for a in what["args"]]
                seen.problems.append(f"console: {' '.join(words)}")
            elif name == "Log.entryAdded" and what["entry"]["level"] == "error":
                entry = what["entry"]
                seen.problems.append(f"log: {entry['text']} {entry.get('url', '')}")
            elif name == "Network.loadingFailed" and not what.get("canceled"):
                seen.problems.append(f"network: {what['errorText']}")
            elif name == "Network.requestWillBeSent":
                seen.requests.append(what["request"]["url"][:200])
        return seen

    _session: str | None = None

    def _call(
        self, method: str, parameters: dict[str, Any] | None = None, *, session: bool = True
    ) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session and self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                found: dict[str, Any] = answer["result"]
                return found
            self._events.append(answer)

    def _await(self, event: str) -> None:
        if any(e.get("method") == event for e in self._events):
            return
        while True:
            message = self._message()
            self._events.append(message)
            if message.get("method") == event:
                return

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], PATIENCE)[0]:
                raise TimeoutError(f"{self._path} did not answer within {PATIENCE:g} s")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError(f"{self._path} has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
