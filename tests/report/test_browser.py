"""The page in a real browser: it renders, the console stays empty, and no request leaves the file."""

import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import own_graph
from fewnode import FewShotClassifier
from fewnode.report.predictions_page import write_predictions_page

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
OWN = (b"google.com", b"googleapis.com", b"gvt1.com")  # what Chromium asks for by itself, whatever the page
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium (Debian: apt-get install chromium)")


class Browser:
    """Chromium without a window, its network led to a port of ours that counts who knocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.knocks: list[bytes] = []
        self.port = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                guest, _ = self.port.accept()
            except OSError:
                return
            guest.settimeout(2)
            with guest:
                self.knocks.append(guest.recv(200))

    def open(self, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        quiet += ["--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions"]
        proxy = f"--proxy-server=127.0.0.1:{self.port.getsockname()[1]}"
        own = [f"--user-data-dir={self.folder}", "--enable-logging=stderr", "--virtual-time-budget=3000", proxy]
        command = [str(BROWSER), *quiet, *own, "--proxy-bypass-list=<-loopback>", *flags, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def browser(tmp_path):
    found = Browser(tmp_path / "profile")
    yield found
    found.port.close()


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def rendered(browser: Browser, page: Path) -> str:
    """The page as the browser has it, which was quiet, asked nobody and is not blank, on a screen and on a phone."""
    done = browser.open(page, "--dump-dom")
    assert done.returncode == 0, done.stderr[-1000:]
    assert console(done) == []
    assert [knock for knock in browser.knocks if not any(host in knock for host in OWN)] == []
    for width, height in ((1200, 2000), (390, 1600)):
        shot = browser.folder.parent / f"{width}.png"
        browser.open(page, f"--screenshot={shot}", f"--window-size={width},{height}", "--hide-scrollbars")
        assert shot.stat().st_size > 20_000
    return done.stdout


def test_the_report_renders_quietly_and_alone(browser, written):
    found = rendered(browser, written[0])
    assert found.count("<svg") == 3 and "Leaderboard</h2>" in found


def test_the_page_about_an_own_graph_renders_quietly_and_alone(browser, tmp_path):
    classifier = FewShotClassifier("probe", k_shot=3, device="cpu").fit(own_graph.graph())
    hostile = "<img src=http://outside.invalid/x.png onerror=console.error('loud')>"
    classifier.adapt({hostile: ["n6", "n14"]})
    page = write_predictions_page(classifier, classifier.predict_proba(classifier.unlabelled()), tmp_path / "own.html")
    found = rendered(browser, page)
    assert "What to label next</h2>" in found and "<img" not in found


def test_the_check_would_notice(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://outside.invalid/x.png"><script>console.error("loud")</script>')
    done = browser.open(page, "--dump-dom")
    assert any("loud" in line for line in console(done))
    assert any(b"outside.invalid" in knock for knock in browser.knocks)
