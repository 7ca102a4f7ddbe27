"""
Measures the web timeline in a real Chromium: first paint, checkpoint to page, memory with many steps.

    python bench/ui.py --steps 10000      needs Debian's `chromium`, and pip install 'mulligan[ui-test]'

With `--at DIR` the timeline is made there and kept, and used again if it is there. Prints one JSON document. Times are of this machine; the page and the server share it with the browser.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))
  .observe({ type: "paint", buffered: true }))"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--at", metavar="DIR", help="keep the timeline in this directory")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(args.at or folder).resolve()
        os.environ |= {"HOME": str(home), "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
        (home / "config" / "mulligan").mkdir(parents=True, exist_ok=True)
        (home / "config" / "mulligan" / "config.toml").write_text("[retention]\nstep = 100000\n")
        print(json.dumps(measure(home / "project", args.steps, args.rounds), indent=2))


def measure(project: Path, steps: int, rounds: int) -> dict[str, object]:
    from playwright.sync_api import sync_playwright

    import mulligan
    from served import served
    from timelines import Agent, long

    if project.exists():
        workspace = mulligan.open(project)
    else:
        project.mkdir()
        workspace = long(project, steps)
    agent = Agent(workspace, "codex", f"live-{time.time_ns()}")
    with served(workspace) as client, sync_playwright() as started:
        begun = time.perf_counter()
        client.get("/api/steps?limit=1")
        first_answer = time.perf_counter() - begun
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        paints, shown = [], []
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            begun = time.perf_counter()
            page.goto(f"http://127.0.0.1:{client.port}/#{client.page.logins.new_link()}")
            page.wait_for_selector(".row.prompt")
            shown.append(time.perf_counter() - begun)
            paints.append(page.evaluate(PAINT) / 1000)
            context.close()
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.goto(f"http://127.0.0.1:{client.port}/#{client.page.logins.new_link()}")
        page.wait_for_selector(".row.prompt")
        page.evaluate("document.querySelector('.story .list').scrollTop = 0")
        late = []
        for number in range(rounds):
            name = f"live_{agent.session}_{number}.py"
            agent.prompt(f"live prompt {number}")
            agent.tool("Write", name, lambda name=name: (project / name).write_text("value = 1\n"))
            begun = time.perf_counter()
            page.wait_for_selector(f".row.step:not(.idle) >> text={name}")
            late.append(time.perf_counter() - begun)
        link = page.context.new_cdp_session(page)
        while page.evaluate("document.querySelector('.story footer').innerText").find("shown") >= 0:
            page.evaluate("document.querySelector('.story .list').scrollTop = 1e9")
            page.wait_for_timeout(100)
        page.evaluate("document.querySelector('.story .list').scrollTop = 0")
        link.send("HeapProfiler.collectGarbage")
        heap = link.send("Runtime.getHeapUsage")["usedSize"]
        frames = page.evaluate(
            """async () => { const box = document.querySelector('.story .list'); const times = [];
            for (let at = 0; at < 120; at++) { const begun = performance.now(); box.scrollTop += 400;
            await new Promise(requestAnimationFrame); times.push(performance.now() - begun); } return times; }"""
        )
        browser.close()
    static = ROOT / "src" / "mulligan" / "ui" / "static"
    return {
        "steps": steps,
        "first_answer_s": round(first_answer, 3),
        "first_paint_s": round(statistics.median(paints), 3),
        "story_shown_s": round(statistics.median(shown), 3),
        "checkpoint_to_page_s": {"median": round(statistics.median(late), 3), "worst": round(max(late), 3)},
        "heap_with_all_steps_mb": round(heap / 1e6, 1),
        "scroll_frame_ms": {"median": round(statistics.median(frames), 1), "worst": round(max(frames), 1)},
        "bundle_bytes": {name: (static / name).stat().st_size for name in ("app.js", "app.css")},
        "bundle_gzip_bytes": {
            name: len(gzip.compress((static / name).read_bytes(), 9)) for name in ("app.js", "app.css")
        },
    }


if __name__ == "__main__":
    main()
