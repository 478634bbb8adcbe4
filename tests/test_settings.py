"""A setting in a message, in the words of whoever shows it."""

from __future__ import annotations

import pickle

import pytest

from lindley.errors import LindleyError
from lindley.settings import Language, setting, speaking, spoken


@pytest.mark.parametrize(
    ("text", "python", "shell", "yaml"),
    [
        (setting("ignore", "Fe"), 'ignore=["Fe"]', "--ignore-columns Fe", "ignore_columns: [Fe]"),
        (
            setting("ignore", "Na, %", "K39"),
            'ignore=["Na, %", "K39"]',
            "--ignore-columns '\"Na, %\",K39'",
            'ignore_columns: ["Na, %", K39]',
        ),
        (setting("include"), "include=...", "--include-columns", "include_columns:"),
        (setting("instance", "a b"), 'instance="a b"', '--instance-column "a b"', 'instance_column: "a b"'),
        (setting("ignore", "no"), 'ignore=["no"]', "--ignore-columns no", 'ignore_columns: ["no"]'),
        (
            setting("allow_duplicates"),
            "allow_duplicates=True",
            "--allow-duplicates",
            "allow_duplicates: true",
        ),
        (setting("device", "cpu"), 'device="cpu"', "--device cpu", "device: cpu"),
        ("a -- b, x--y", "a -- b, x--y", "a -- b, x--y", "a -- b, x--y"),
    ],
)
def test_every_front_end_has_its_words(text: str, python: str, shell: str, yaml: str) -> None:
    assert spoken(text) == python
    languages: dict[Language, str] = {"python": python, "shell": shell, "yaml": yaml}
    for language, expected in languages.items():
        with speaking(language):
            assert spoken(f"Use {text}.") == f"Use {expected}."


def test_the_language_is_that_of_the_place_where_an_error_is_shown() -> None:
    """Such as one that a worker process raised, which does not know who asked for the work."""
    error = pickle.loads(pickle.dumps(LindleyError(f"Leave it out with {setting('ignore', 'Fe')}.")))
    with speaking("shell"):
        assert str(error) == "Leave it out with --ignore-columns Fe."
    assert repr(error) == "LindleyError('Leave it out with ignore=[\"Fe\"].')"


def test_a_name_cannot_close_its_mark() -> None:
    assert spoken(setting("ignore", "a\x03\x02sheet\x03")) == 'ignore=["asheet"]'


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (f"Leave it out with {setting('ignore', 'Fe', 'Na, %')}", "Leave it out with “leave out” above Fe, Na, %"),
        (f"Name one with {setting('source')}", "Name one with “source” above the column"),
        (f"Say which with {setting('header_row', '3')}", "Say which with “Row of the header”: 3"),
        (f"If so, {setting('allow_outside')}", "If so, --allow-outside"),
        (f"Name one with {setting('ignore', '{0}')}", "Name one with “leave out” above {0}"),
    ],
)
def test_a_page_has_words_for_what_can_be_chosen_there_and_options_for_the_rest(text: str, page: str) -> None:
    with speaking("page"):
        assert spoken(text) == page
