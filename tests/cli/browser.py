"""browser.py - opens pages in a headless Chromium, through its remote debugging pipe; prints what a test asks of each.

browser.py PAGE [--shot PREFIX] [--script EXPRESSION]... opens the file four times, 390 and 1280 pixels wide, in light and
dark, and prints one JSON object: console (messages), requests (other than of the page), load_s (the slowest), errors,
scrolls (widths at which the page can be scrolled sideways) and the values of the expressions. Ends with 77 where there is no Chromium.
"""
import argparse
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Browser:
    def __init__(self, program, folder):
        to_browser, self.to = os.pipe()
        self.source, from_browser = os.pipe()

        def inherit():  # the browser reads descriptor 3 and writes descriptor 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", "--hide-scrollbars", "--user-data-dir=" + folder, "about:blank"],
            preexec_fn=inherit, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")

    def receive(self, timeout):
        end = time.time() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.source], [], [], max(0, end - time.time()))[0]:
                return None
            more = os.read(self.source, 1 << 20)
            if not more:
                sys.exit("the browser has ended")
            self.buffer += more
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(600)
            if answer is None:
                sys.exit("the browser does not answer " + method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(method + ": " + json.dumps(answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(expression + ": " + json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait(self, method, timeout=600):
        end = time.time() + timeout
        while not any(e.get("method") == method for e in self.events):
            event = self.receive(max(0, end - time.time()))
            if event is None:
                sys.exit("no " + method + " within ten minutes")
            self.events.append(event)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def look(browser, address, width, scheme, options, out):
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.events.clear()
    browser.call("Page.navigate", url=address)
    browser.wait("Page.loadEventFired")
    load = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    out["load_s"] = max(out["load_s"], load)
    browser.value("new Promise(done => requestAnimationFrame(() => setTimeout(() => done(1), 200)))")
    for event in browser.events:
        params = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled":
            out["console"].append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        if event.get("method") == "Log.entryAdded":
            out["console"].append(params["entry"]["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            out["errors"].append(json.dumps(params["exceptionDetails"])[:600])
        if event.get("method") == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != address.split("#")[0] and not url.startswith("data:"):
                out["requests"].append(url)
    if browser.value("document.documentElement.scrollWidth > innerWidth"):
        out["scrolls"].append(width)
    out["values"] = [browser.value(e) for e in options.script]
    if options.shot:
        size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": min(size["height"], 16000), "scale": 1})
        with open("%s-%d-%s.png" % (options.shot, width, scheme), "wb") as f:
            f.write(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?")
    parser.add_argument("--probe", action="store_true", help="only tell whether there is a browser")
    parser.add_argument("--shot", help="write PREFIX-WIDTH-SCHEME.png")
    parser.add_argument("--script", action="append", default=[], help="an expression whose value is printed")
    options = parser.parse_args()
    program = next((p for p in map(shutil.which, PROGRAMS) if p), None)
    if not program:
        print("skipped: no Chromium is here")
        return 77
    if options.probe:
        return 0
    out = {"console": [], "errors": [], "requests": [], "scrolls": [], "load_s": 0.0}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            path, _, place = options.page.partition("#")
            address = "file://" + os.path.abspath(path) + ("#" + place if place else "")
            for width in 390, 1280:
                for scheme in "light", "dark":
                    look(browser, address, width, scheme, options, out)
        finally:
            browser.close()
    print(json.dumps(out))
    return 0


sys.exit(main())
