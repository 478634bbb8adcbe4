"""Verbal scales at their edges, in both languages, and scales of a laboratory's own."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lindley.casework.laboratory import BUILT_IN_SCALES, LANGUAGES, load_scale
from lindley.errors import LindleyError
from lindley.pages.case_words import WORDS, reading
from lindley.pages.numerals import lr_text, power, ratio_text

NFI = [
    (1, "approximately equally probable", "ongeveer even waarschijnlijk"),
    (2, "slightly more probable", "iets waarschijnlijker"),
    (10, "more probable", "waarschijnlijker"),
    (100, "much more probable", "veel waarschijnlijker"),
    (10_000, "very much more probable", "zeer veel waarschijnlijker"),
    (1_000_000, "extremely more probable", "extreem veel waarschijnlijker"),
]
ENFSI = [(2, "weak support"), (10, "moderate support"), (100, "moderately strong support"), (1000, "strong support"),
         (10_000, "very strong support"), (1_000_000, "extremely strong support")]  # fmt: skip


@pytest.mark.parametrize(("above", "english", "dutch"), NFI)
def test_the_nfi_scale_at_its_edges(above: float, english: str, dutch: str) -> None:
    scale = load_scale("nfi")
    for sign in (1, -1):
        at = sign * math.log10(above)
        assert scale.describe(at, "en").words == english
        assert scale.describe(at, "nl").words == dutch
        assert scale.describe(at + sign * 1e-9, "en").words == english
        if above > 1:
            assert scale.describe(at - sign * 1e-9, "en").words != english


@pytest.mark.parametrize(("above", "english"), ENFSI)
def test_the_enfsi_scale_at_its_edges(above: float, english: str) -> None:
    scale = load_scale("enfsi")
    assert scale.describe(math.log10(above)).words == english
    assert scale.describe(math.log10(above) - 1e-9).words != english
    assert scale.describe(1e6).words == "extremely strong support"


@pytest.mark.parametrize("name", BUILT_IN_SCALES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_lr_below_one_exchanges_the_propositions(name: str, language: str) -> None:
    scale = load_scale(name)
    same, other = scale.propositions[language]
    up, down = scale.describe(3.0, language), scale.describe(-3.0, language)
    assert up.words == down.words
    assert up.sentence.index(same) < up.sentence.index(other)
    assert down.sentence.index(other) < down.sentence.index(same)
    neutral = scale.describe(0.0, language)
    assert neutral.step == 0
    assert "{" not in neutral.sentence + up.sentence


def test_no_number_has_no_words() -> None:
    with pytest.raises(LindleyError, match="not a number"):
        load_scale("nfi").describe(math.nan)
    assert load_scale("nfi").describe(math.inf).step == 5
    with pytest.raises(LindleyError, match="has no words in 'fr': it has en, nl"):
        load_scale("nfi").describe(1.0, "fr")


OWN = """\
name: Own
source: the laboratory
propositions:
  en: [it is the same, it is another]
sentence:
  en: "It is {words} that {favoured} than that {other}."
neutral:
  en: "It is {words}."
steps:
  - {above: 1, words: {en: unclear}}
  - {above: 50, words: {en: clear}}
"""


def test_a_scale_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    scale = load_scale(str(path))
    assert scale.describe(1.69).sentence == "It is unclear."
    assert scale.describe(1.70).sentence == "It is clear that it is the same than that it is another."


BAD = {
    "a list": ("- 1\n- 2\n", "does not read"),
    "nothing": ("", "does not read"),
    "not YAML": ("name: [\n", "is not YAML"),
    "a key twice": ("name: A\nname: B\n", "line 2: the key 'name' stands on line 1 already"),
    "no steps": (OWN.replace("steps:", "stages:"), "steps: is missing"),
    "from 2": (OWN.replace("above: 1,", "above: 2,"), "line 9, steps: the steps must begin at 1 and increase"),
    "falling": (OWN.replace("above: 50", "above: 1"), "line 9, steps: the steps must begin at 1 and increase"),
    "below 1": (OWN.replace("above: 1,", "above: 0.5,"), r"line 10, steps.0.above: Input should be greater"),
    "infinite": (OWN.replace("above: 50", "above: .inf"), "line 11, steps.1.above"),
    "text": (OWN.replace("above: 50", "above: fifty"), "line 11, steps.1.above"),
    "one step": (OWN.replace("  - {above: 50, words: {en: clear}}\n", ""), "line 9, steps: Tuple should have at least 2"),
    "no words": (OWN.replace("{en: clear}", "{nl: helder}"), "it speaks 'en' in its sentence, and not in the step above 50"),
    "no neutral": (OWN.replace('neutral:\n  en: "It is {words}."', "neutral: {}"), "and not in neutral"),
    "no place for words": (OWN.replace("It is {words} that", "It is that"), "line 5, sentence: .* no place for {words}"),
    "a strange field": (OWN.replace("{other}", "{others}"), "line 5, sentence: .* has {others} in it"),
    "a field that looks inside": (OWN.replace("{other}", "{words.__class__}"), "has {words.__class__} in it"),
    "an open brace": (OWN.replace("{other}", "{other"), "line 5, sentence"),
    "three propositions": (OWN.replace("it is another]", "it is another, or not]"), "line 4, propositions.en"),
    "a field too many": (OWN + "colour: red\n", "line 12, colour: there is no such setting here"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_scale_is_told_by_its_line(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(LindleyError, match=message) as caught:
        load_scale(str(path))
    assert "own.yaml" in str(caught.value)


def test_no_scale_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(LindleyError, match="there is no verbal scale 'nif': give nfi or enfsi, or a YAML file"):
        load_scale("nif")
    (tmp_path / "x.yaml").write_bytes(b"\xff\xff\x00")
    with pytest.raises(LindleyError, match=r"byte 0 \(0xff\) is not UTF-8 text"):
        load_scale(str(tmp_path / "x.yaml"))


@pytest.mark.parametrize(
    ("log10_lr", "english", "dutch"),
    [(0, "1.0", "1,0"), (0.31, "2.0", "2,0"), (1, "10", "10"), (2.76, "570", "570"), (3, "1,000", "1\u202f000"),
     (5.9999999, "990,000", "990\u202f000"), (6, "1.0 million", "1,0 miljoen"), (7.29, "19 million", "19 miljoen"),
     (9.3, "1.9 billion", "1,9 miljard"), (15.9, "10¹⁵", "10¹⁵")],
)  # fmt: skip
def test_an_lr_as_it_is_said(log10_lr: float, english: str, dutch: str) -> None:
    assert lr_text(log10_lr) == english
    assert lr_text(log10_lr, "nl") == dutch


def test_ratios_below_one_and_powers() -> None:
    assert ratio_text(-2.76, "en") == "1/570"
    assert ratio_text(-580.3, "nl") == "10⁻⁵⁸⁰"
    assert power(-4) == "10⁻⁴"
    assert "570 times as probable if the trace comes from another source" in reading(-2.76, load_scale("nfi"), "en")
    assert "about as probable if" in reading(0.01, load_scale("nfi"), "en")


def test_what_is_said_is_never_more_than_it_is() -> None:
    for log10_lr in [k / 37 for k in range(300)]:
        said = lr_text(log10_lr).replace(",", "")
        number, _, word = said.partition(" ")
        assert float(number) * {"": 1, "million": 1e6, "billion": 1e9}[word] <= 10**log10_lr * (1 + 1e-9)


def test_every_text_is_there_in_both_languages_with_the_same_fields() -> None:
    fields = {
        language: {name: sorted(part.split("}")[0] for part in text.split("{")[1:]) for name, text in texts.items()}
        for language, texts in WORDS.items()
    }
    assert fields["en"] == fields["nl"]
