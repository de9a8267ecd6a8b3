"""Headless Chromium, driven over WebDriver (https://www.w3.org/TR/webdriver2/)."""

import json
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

from gateway import wait_until

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's name for a reference to one


# Texts and hints of the page with a contrast that is too low to read them easily: WCAG 2.2, 1.4.3.
FAINT_TEXTS = r"""
const channels = color => color.match(/[\d.]+/g).map(Number);
const luminance = color => channels(color).slice(0, 3).map(each => each / 255)
    .map(each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
const back = element => {
    const color = getComputedStyle(element).backgroundColor;
    return channels(color)[3] === 0 && element.parentElement ? back(element.parentElement) : color;
};
const contrast = (element, color) => {
    const [dark, light] = [luminance(color), luminance(back(element))].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
};
const faint = [];
const judge = (element, color, text) => {
    if (text.trim() && element.checkVisibility() && contrast(element, color) < 4.5) faint.push(text.trim());
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    judge(element, getComputedStyle(element).color, texts.currentNode.data);
}
for (const field of document.querySelectorAll('[placeholder]'))
    judge(field, getComputedStyle(field, '::placeholder').color, field.placeholder);
return faint"""


class Browser:
    """`with Browser() as browser: tab = browser.open(url)`; `flags` are added to Chromium's command line."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="pulsegate-browser-", ignore_cleanup_errors=True)
        self.flags = [*FLAGS, f"--user-data-dir={self.folder.name}/profile", *flags]
        self.session = None

    def __enter__(self):
        port = self._start_driver()
        try:
            self.base = f"http://127.0.0.1:{port}/session"
            options = {"args": self.flags, "binary": "/usr/bin/chromium"}
            self.session = self.call("POST", "", capabilities={"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "WARNING"}}})["sessionId"]
            self.first_tab = self.call("GET", "/window")  # stays open, and the browser with it
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(60)
            self.driver.stdout.close()
            self.folder.cleanup()

    def _start_driver(self):
        """Its port. It takes a free one of IPv6, and ends if that is in use at IPv4: then it is started again."""
        said = []
        for _ in range(10):
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                           env={"HOME": self.folder.name, "PATH": "/usr/bin:/bin"})
            for line in self.driver.stdout:
                said.append(line)
                if found := re.search(r"started successfully on port (\d+)", line):
                    threading.Thread(target=self.driver.stdout.read, daemon=True).start()  # otherwise the driver would block
                    return found[1]
            self.driver.stdout.close()
            self.driver.wait(60)
        raise AssertionError(f"chromedriver did not start: {''.join(said)}")

    def call(self, method, path, **body):
        session = f"/{self.session}" if self.session else ""
        request = urllib.request.Request(self.base + session + path, method=method,
                                         data=json.dumps(body).encode() if method == "POST" else None)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.read().decode()[:2000]}") from None

    def open(self, url):
        self.call("POST", "/window", handle=self.first_tab)
        return Tab(self, self.call("POST", "/window/new", type="tab")["handle"], url)


class Tab:
    def __init__(self, browser, handle, url):
        self.browser = browser
        self.handle = handle
        self.call("POST", "/url", url=url)

    def call(self, method, path, **body):
        self.browser.call("POST", "/window", handle=self.handle)
        return self.browser.call(method, path, **body)

    def element(self, selector):
        return "/element/" + self.call("POST", "/element", using="css selector", value=selector)[ELEMENT]

    def type(self, selector, text):
        field = self.element(selector)
        self.call("POST", field + "/clear")
        self.call("POST", field + "/value", text=text)

    def click(self, selector):
        self.call("POST", self.element(selector) + "/click")

    def text(self, selector):
        return self.call("GET", self.element(selector) + "/text")

    def run(self, script):
        """What the script returns."""
        return self.call("POST", "/execute/sync", script=script, args=[])

    def resize(self, width, height):
        """The page, not the window."""
        self.call("POST", "/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params={
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def faint_texts(self):
        """Those with a low contrast, in the light and in the dark."""
        found = {}
        for scheme in ("dark", "light"):
            self.call("POST", "/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            found[scheme] = self.run(FAINT_TEXTS)
        return found

    def wait_for(self, selector, text):
        """Until the element has this text among its lines, or a line that the function `text` accepts."""
        accepts = text if callable(text) else lambda line: line == text
        try:
            wait_until(lambda: any(map(accepts, self.text(selector).splitlines())), 60, f"'{text}' in {selector}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says '{self.text(selector)}'") from None

    def console(self):
        """The warnings and errors in its console since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", type="browser")]

    def close(self):
        self.call("DELETE", "/window")
