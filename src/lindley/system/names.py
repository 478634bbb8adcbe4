"""Names of models: ``[transform:]kind[-integration][+calibration …][@cv]``, as in ``yeo-johnson:tlm-kde+logistic+elub``.

``@cv`` means cross-fitting: the model learns from train and validation sources, and is calibrated on pairs of them that were
held out of the fit, as in ``tlm+logistic@cv``. Options that differ from the defaults follow the kind in brackets,
``ntlm-single-pairs-n1[orthonormal=qr]+logistic``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from lindley.errors import LindleyError
from lindley.shown import file_name
from lindley.system.kinds import CALIBRATIONS, GAUSSIANISERS, INTEGRATIONS, KINDS, Kind

__all__ = ["ModelName", "known_names"]

FILES = ("pretrain",)
"""Options that may be the path of a file; a name tells the file, and not its folder."""
MOST_STEPS = 8
"""Calibrations behind each other; nobody has a use for more."""
LONGEST = 500
"""Letters of a name, without the options of its file."""
_OPTIONS = re.compile(r"^([^\[]*)\[(.*)\]([^\]]*)$")
_READS = "A name reads [transform:]model[+calibration…], as in yeo-johnson:tlm+logistic+elub."


@dataclass(frozen=True)
class ModelName:
    """A model in full: which transform, which kind with which options, which integration, which calibrations after it."""

    gaussianiser: str | None
    base: str  # the name of its kind
    calibrations: tuple[str, ...] = ()
    options: tuple[tuple[str, str | int | float], ...] = ()  # those that were given, by name
    cross_fitted: bool = False  # @cv
    integration: str | None = None

    def __str__(self) -> str:
        front = f"{self.gaussianiser}:" if self.gaussianiser else ""
        law = f"-{self.integration}" if self.integration else ""
        options = ",".join(
            f"{name}={file_name(str(value)) if name in FILES else value}" for name, value in self.options
        )
        name = front + "+".join((self.base + law + (f"[{options}]" if options else ""), *self.calibrations))
        return name + ("@cv" if self.cross_fitted else "")

    @property
    def kind(self) -> Kind:
        """All about its kind."""
        return KINDS[self.base]

    @property
    def before(self) -> ModelName | None:
        """What must be there first: the model without its last calibration, or without its integration; or nothing."""
        if self.calibrations:
            return replace(self, calibrations=self.calibrations[:-1])
        if self.integration:
            own = INTEGRATIONS[self.integration].options
            kept = tuple(option for option in self.options if option[0] not in own)
            return replace(self, integration=None, options=kept)
        return None

    @property
    def family(self) -> list[ModelName]:
        """The model and all that it builds on, the root first: fitted, then integrated, then calibrated step by step."""
        return [self] if self.before is None else [*self.before.family, self]

    @property
    def root(self) -> ModelName:
        """The model that everything builds on: fitted or trained, without integration and calibration."""
        return self.family[0]

    @property
    def learns_from_all(self) -> bool:
        """Whether it learns from train and validation sources alike, so that its validation pairs are held out of a fit."""
        return self.cross_fitted or self.kind.cross_fit == "always"

    @property
    def alone(self) -> bool:
        """Whether its runs have nothing to share: each is fitted by itself, and is a piece of work of its own."""
        front = self.gaussianiser is not None and GAUSSIANISERS[self.gaussianiser].alone
        return not self.kind.is_trained and (self.kind.alone or front)

    @property
    def effort(self) -> float:
        """About how many times as long as tlm it takes to fit."""
        return self.kind.effort + (GAUSSIANISERS[self.gaussianiser].effort if self.gaussianiser else 0.0)

    @property
    def words(self) -> str:
        """What it is, in a line."""
        return "; ".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """What is in front of the model, what it is, and what is behind it."""
        return [
            *([GAUSSIANISERS[self.gaussianiser].words] if self.gaussianiser else []),
            self.kind.words,
            *([INTEGRATIONS[self.integration].words] if self.integration else []),
            *(CALIBRATIONS[step].words for step in self.calibrations),
        ]

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name, or say what is wrong with it and what was meant."""
        return cls.of(text)

    @classmethod
    def of(
        cls,
        text: str,
        *,
        integration: str | None = None,
        calibrations: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> ModelName:
        """A name, with what else was said of the model.

        Raises:
            LindleyError: for what there is not, and for what does not go together, with what was meant.
        """
        if len(text) > LONGEST:
            raise LindleyError(f"model '{text[:40]}…': a name of {len(text)} letters is too long. {_READS}")
        whole, at, how = text.strip().partition("@")
        if at and how != "cv":
            raise LindleyError(
                f"model '{text}': only @cv can stand behind a name, for cross-fitting, as in tlm+logistic@cv."
            )
        whole, written = _options_in(whole)
        front, colon, rest = whole.rpartition(":")
        base, *steps = rest.split("+")
        bases = dict(known_names())
        asked: list[tuple[str, Mapping[str, Any], str]] = [
            *([(front, GAUSSIANISERS, "transform")] if colon else []),
            (base, bases, "model"),
            *((step, CALIBRATIONS, "calibration") for step in (*steps, *calibrations)),
        ]
        for part, known, what in asked:
            if part not in known:
                raise LindleyError(_unknown(text, part, known, what))
        if len(steps) + len(calibrations) > MOST_STEPS:
            raise LindleyError(
                f"model '{text[:80]}': {len(steps) + len(calibrations)} calibrations behind each other are too many. Give "
                f"{MOST_STEPS} at most; one does in nearly all cases."
            )
        kind, law = bases[base]
        if integration is not None:
            if law is not None or "integration" not in kind.can:
                raise LindleyError(
                    f"model '{text}': integration: {integration} is for a neural model without one "
                    f"({' or '.join('-' + law for law in INTEGRATIONS)}) in its name"
                )
            law = integration
        name = cls(front or None, kind.name, (*steps, *calibrations), cross_fitted=bool(at), integration=law)
        name._require_possible(text)
        return replace(name, options=_options(text, kind, law, {**written, **(options or {})}))

    def _require_possible(self, text: str) -> None:
        if self.kind.cross_fit == "always" and (self.gaussianiser or self.cross_fitted):
            raise LindleyError(
                f"model '{text}': {self.base} is cross-fitted and evens out its features by itself. Leave out what stands in "
                "front of it and @cv."
            )
        if self.cross_fitted and self.kind.cross_fit == "never":
            able = [kind.name for kind in KINDS.values() if kind.cross_fit == "on request"]
            raise LindleyError(
                f"model '{text}': @cv is for {' and '.join(able)}: a trained model needs its validation sources to know when "
                "to stop."
            )


def known_names() -> Iterable[tuple[str, tuple[Kind, str | None]]]:
    """Every kind by its name, and with the integrations behind it that it can have."""
    for kind in KINDS.values():
        yield kind.name, (kind, None)
    for kind in KINDS.values():
        if "integration" in kind.can:
            for law in INTEGRATIONS:
                yield f"{kind.name}-{law}", (kind, law)


def _options_in(text: str) -> tuple[str, dict[str, str]]:
    """A name without its brackets, and what stands in them."""
    found = _OPTIONS.match(text)
    if found is None:
        return text, {}
    pairs = (option.partition("=") for option in re.split(r",(?=\w+=)", found[2]))
    return found[1] + found[3], {name.strip(): value.strip() for name, _, value in pairs}


def _options(text: str, kind: Kind, law: str | None, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    known = kind.options.model_fields
    if unknown := [option for option in given if option not in known]:
        own = f"its options are {', '.join(known)}" if known else "it has no options"
        others = [other.name for other in KINDS.values() if set(unknown) <= set(other.options.model_fields)]
        whose = f" ({', '.join(unknown)}: of {_listing(others)})" if others else ""
        raise LindleyError(f"model '{text}': there is no option {', '.join(unknown)}; {own}{whose}")
    try:
        found = kind.options.model_validate({name: value for name, value in given.items() if value is not None}).given()
    except ValidationError as error:
        problems = (
            f"{problem['loc'][0]}: {problem['msg']}, and not {problem['input']!r}" for problem in error.errors()
        )
        raise LindleyError(f"model '{text}': {'; '.join(problems)}") from None
    names = dict(found)
    for option in names:
        needed = [name for name, part in INTEGRATIONS.items() if option in part.options]
        if needed and law not in needed:
            raise LindleyError(
                f"model '{text}': {option} is for a model whose variance is integrated as {' or '.join(needed)}"
            )
    if names.get("components", 1) > 1 and law:
        raise LindleyError(f"model '{text}': the variance is integrated out of models with one component")
    return found


def _unknown(text: str, part: str, known: Mapping[str, Any], what: str) -> str:
    close = get_close_matches(part, known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"model '{text}': there is no {what} '{part}'.{hint} Known: {_listing(known)}. {_READS}"


def _listing(known: Iterable[str]) -> str:
    """The known names; the many neural models as a pattern."""
    networks = "ntlm-{single,double}-{pairs,sources}-{n1,n2}"
    names = [name for name in known if not name.startswith("ntlm-")]
    if len(names) == len(list(known)):
        return ", ".join(names)
    laws = " with -common or -varying behind, or neither" if any(n.endswith("-varying") for n in known) else ""
    return ", ".join([*names, networks + laws])
