"""The status page in a real browser: 10,000 nodes, live, light and dark, on a phone, with hostile texts.

The pictures are in out/status-page-*.png.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8s_bridge.endpoints import http_server
from k8s_bridge.page import web
from tests.browser import Browser, program
from tests.unit.k8s_bridge.page.fleet import HOSTILE, LETTERS, Fleet

NODES = 10_000
OUT = Path(__file__).parents[2] / "out"

pytestmark = [
    pytest.mark.skipif(program() is None, reason="no Chromium here: apt-get install chromium"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(NODES)


@pytest.fixture(scope="module")
def browser(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    OUT.mkdir(exist_ok=True)
    routes = web.routes(fleet.sections, cluster=HOSTILE)
    server = http_server.serve(routes, "127.0.0.1", 0, names=())
    assert server is not None
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        found.screen(1440, 1600)
        found.open(f"http://127.0.0.1:{server.port}/")
        found.until("document.querySelectorAll('.above').length == 20")  # the topology is there
        found.until("document.querySelector('#jobs td')")
        yield found
    server.stop()


def test_every_node_is_in_the_grid_below_its_switch(browser: Browser) -> None:
    letters = "[...document.querySelectorAll('.cells i')].map(i => i.className[0]).join('')"
    found = browser.value(letters)
    assert len(found) == NODES
    assert found[: len(LETTERS)] == LETTERS
    label = browser.value("document.querySelector('.cells').getAttribute('aria-label')")
    assert label.startswith("leaf-0: 2 fault, drained by Holdfast, 1 down")
    browser.picture(OUT / "status-page-light.png")


def test_texts_of_users_are_shown_as_text(browser: Browser) -> None:
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert "owned" not in browser.value("document.title").split("<img")[0]
    assert browser.value("document.title.includes('onerror')"), "as text, in the title"
    assert browser.value("document.querySelector('#outs').textContent.includes('<img src=x')")
    assert browser.value("document.querySelector('#jobs').textContent.includes('<img src=x')")
    assert browser.value("document.querySelectorAll('#outs table').length") == 1


def test_it_changes_while_it_is_open(browser: Browser, fleet: Fleet) -> None:
    fleet.drain(500, "holdfast:XID74: NVLink 3 is down gpu=2")
    fleet.tell()
    browser.until("document.querySelectorAll('.cells i')[500].className.startsWith('F')")
    browser.until("document.querySelector('#faults').textContent.includes('XID74')")
    browser.until("document.querySelector('#events').textContent.includes('XID74')")


def test_a_node_can_be_found_without_a_mouse(browser: Browser) -> None:
    browser.value("(q => { q.value = 'worker-9999'; q.form.requestSubmit(); })($('q'))")
    browser.until("$('p-body').textContent.includes('holdfast explain worker-9999')")
    press = "new KeyboardEvent('keydown', {key: '%s', bubbles: true})"
    browser.value(f"document.querySelector('.cells').dispatchEvent({press % 'Enter'})")
    browser.value(f"document.querySelector('.cells').dispatchEvent({press % 'ArrowRight'})")
    browser.until("$('p-name').textContent == 'worker-1'")
    browser.value(f"document.dispatchEvent({press % 'Escape'})")
    assert browser.value("$('panel').hidden")


def test_states_differ_in_more_than_colour(browser: Browser) -> None:
    """The legend's keys, without their colours."""
    looks = browser.value(
        """JSON.stringify([...document.querySelectorAll('#legend .key')].map(key => {
          const plain = text => text.replace(/rgba?\\([^)]*\\)/g, '');
          const s = getComputedStyle(key), b = getComputedStyle(key, '::before');
          return [s.borderRadius, plain(s.backgroundImage), plain(s.boxShadow), b.content,
                  b.transform, s.backgroundColor === 'rgba(0, 0, 0, 0)'].join('|'); }))"""
    )
    found = json.loads(looks)
    assert len(found) == len(set(found)) == 10


def test_dark_and_on_a_phone(browser: Browser) -> None:
    light = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.screen(1440, 1600, dark=True)
    assert browser.value("getComputedStyle(document.body).backgroundColor") != light
    browser.picture(OUT / "status-page-dark.png")
    browser.screen(390, 844, phone=True)
    wide = browser.value("[document.documentElement.scrollWidth, innerWidth].join()")
    assert wide == "390,390", "nothing scrolls sideways"
    browser.picture(OUT / "status-page-phone.png")
    browser.screen(1440, 1600)
