"""The page about runs of the load generator: Chromium opens it from a file, without any network."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser
from gateway import binary, wait_until

GENERATOR = binary().parent / "pulsegate-loadgen"
PLOTS = 7  # that the run below has something for


def histogram(milliseconds, count):
    """As the generator writes it: pairs of a bucket and its count. All values lie in one bucket."""
    value = milliseconds * 1_000_000
    shift = value.bit_length() - 8
    return {"min": value, "max": value, "sum": value * count, "buckets": [shift * 128 + (value >> shift), count]}


def second(number, latency):
    return {"second": number, "length": 1,
            "counts": {"connected": 10, "packets_sent": 500, "packets_received": 480, "messages_sent": 100,
                       "messages_received": 100},
            "timings": {"message": histogram(latency, 100)},
            "gauges": {"clients_open": 10 * number + 10, "server_cpu": 0.2}}


def run(name, latency, **fields):
    series = [second(number, latency) for number in range(30)]
    return {"kind": "a run of pulsegate-loadgen", "name": name, "verdict": f"The server kept {name}.", "series": series,
            "totals": {"counts": {"entered": 300, "messages_sent": 3000},
                       "timings": {"message": histogram(latency, 3000)}, "gauges": {}},
            "marks": [{"at": 5, "text": "measuring begins"}, {"at": 25, "text": "drain begins"}],
            "checks": [{"name": "lost", "promise": "every message arrived", "outcome": "passed", "value": 0,
                        "detail": "0 lost"}], **fields}


class LabPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="pulsegate-page-")))
        cls.browser = cls.enterClassContext(Browser("--host-resolver-rules=MAP * ~NOTFOUND"))

    def page(self, *runs):
        """The tab that shows these runs."""
        files = []
        for number, record in enumerate(runs):
            files.append(self.folder / f"{number}.json")
            files[-1].write_text(json.dumps(record))
        page = self.folder / "page.html"
        subprocess.run([GENERATOR, "compare", *files, "--html", page], check=True, timeout=60, capture_output=True)
        tab = self.browser.open(page.as_uri())
        self.addCleanup(tab.close)
        return tab

    def assert_drawn(self, tab):
        """Each plot has something on it, and no script has complained."""
        blank = tab.run("""return [...document.querySelectorAll("canvas")].filter(canvas => {
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return !pixels.some(value => value !== 0);
        }).length""")
        self.assertEqual(blank, 0)
        self.assertEqual(tab.console(), [])

    def assert_fits(self, tab):
        for width in (1400, 400):
            tab.resize(width, 900)
            self.assertLessEqual(tab.run("return document.documentElement.scrollWidth"), width)

    def test_one_run_is_shown_with_its_plots_at_both_widths(self):
        record = run("keepalive", 3)
        record["checks"] += [dict(record["checks"][0], name=outcome, outcome=outcome)
                             for outcome in ("skipped", "refused", "failed")]
        tab = self.page(record)
        self.assertIn("The server kept keepalive.", tab.text("#verdicts"))
        self.assertIn("every message arrived", tab.text("#checks"))
        words = tab.run("return [...document.querySelectorAll('#checks .word')].map(word => word.textContent)")
        self.assertEqual(words, ["fail", "inconclusive", "pass", "skipped"])
        self.assertEqual(tab.run("return document.querySelectorAll('canvas').length"), PLOTS)
        self.assertEqual(tab.run("return document.querySelectorAll('figcaption:empty').length"), 0)
        self.assert_drawn(tab)
        self.assert_fits(tab)

    def test_what_hostile_clients_did_is_shown_before_and_with_them(self):
        record = run("keepalive", 3)
        record["marks"].append({"at": 15, "text": "hostile clients come"})
        record["series"] = [second(number, 3 if number < 15 else 9) for number in range(30)]
        tab = self.page(record)
        row = tab.run("""return [...document.querySelectorAll("#hostile tbody tr")]
            .map(row => [...row.cells].map(cell => cell.textContent)).find(row => row[0] === "message p99")""")
        self.assertTrue(row[1].startswith("3") and row[2].startswith("9"), row)
        self.assert_fits(tab)

    def test_several_runs_are_shown_side_by_side(self):
        tab = self.page(run("quick", 1), run("slow", 40))
        self.assertIn("2 load tests compared", tab.text("h1"))
        row = tab.run("""return [...document.querySelectorAll("#comparison tr")]
            .find(row => row.cells[0].textContent === "message p99").textContent""")
        self.assertIn("+3900 %", row)
        labels = tab.run("return charts[0].chart.data.datasets.map(set => set.label)")
        self.assertEqual(labels, ["quick", "slow"])
        self.assert_drawn(tab)
        self.assert_fits(tab)

    def test_dark_pages_have_their_own_colours_and_are_printed_light(self):
        tab = self.page(run("keepalive", 3))
        color = "return charts[0].chart.data.datasets[0].borderColor"
        light = tab.run(color)
        tab.call("POST", "/goog/cdp/execute", cmd="Emulation.setEmulatedMedia",
                 params={"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        wait_until(lambda: tab.run(color) != light, what="the dark colours, which come with the page's next frame")
        tab.run("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(tab.run(color), light)
        self.assert_drawn(tab)

    def test_no_text_of_a_run_becomes_part_of_the_page(self):
        attack = "</script><img src=x onerror='window.hurt = true'><b class=hurt>"
        tab = self.page(run(attack, 3, notes=[attack], target=attack, scenario=attack, verdict=attack))
        self.assertIn("<b class=hurt>", tab.text("#verdicts"))
        self.assertEqual(tab.run("return document.querySelectorAll('.hurt, img').length"), 0)
        self.assert_drawn(tab)


if __name__ == "__main__":
    unittest.main()
