"""How a person uses a page: with the mouse, or with the keyboard alone. A journey is written once for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_MOST_TABS = 200
_HAS_FOCUS = "element => element === document.activeElement"


class Mouse:
    def press(self, what: Locator) -> None:
        what.click()

    def press_twice(self, what: Locator) -> None:
        what.dblclick()

    def write(self, field: Locator, text: str) -> None:
        field.click()
        field.fill(text)

    def choose(self, field: Locator, option: str) -> None:
        field.select_option(option)


class Keyboard:
    """Tab, Enter, Space and letters: no element is clicked, and none gets the focus in another way."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, what: Locator) -> None:
        self._go_to(what)
        self.page.keyboard.press("Space" if what.get_attribute("type") == "checkbox" else "Enter")

    def press_twice(self, what: Locator) -> None:
        self._go_to(what)
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("Enter")

    def write(self, field: Locator, text: str) -> None:
        self._go_to(field)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def choose(self, field: Locator, option: str) -> None:
        self._go_to(field)
        self.page.keyboard.type(option)
        assert field.evaluate("field => field.selectedOptions[0].textContent") == option

    def _go_to(self, what: Locator) -> None:
        what.wait_for()
        for _ in range(_MOST_TABS):
            if what.evaluate(_HAS_FOCUS):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {what}")
