"""Names of models: ``[gaussianiser:]base[+calibration …]``, as in ``yeo-johnson:tlm-kde+logistic+elub``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from lindley.errors import LindleyError

__all__ = ["BASES", "CALIBRATION_NAMES", "GAUSSIANISER_NAMES", "ModelName", "parse_models"]

# Names only, so that `lindley --help` loads neither torch nor scikit-learn; a test holds them to what there is.
BASES = {
    "tlm": "two-level model, normal between sources",
    "tlm-kde": "two-level model, kernel density between sources",
}
GAUSSIANISER_NAMES = {
    "quantile": "marginal quantile transform in front",
    "yeo-johnson": "marginal Yeo-Johnson transform in front",
}
CALIBRATION_NAMES = {
    "logistic": "logistic calibration",
    "kde": "kernel density calibration",
    "pav": "pool-adjacent-violators calibration",
    "elub": "empirical lower and upper bounds",
    "iv": "invariance verification bounds",
}


@dataclass(frozen=True)
class ModelName:
    """A model of an experiment: which data transform, which LR model, which calibrations after it."""

    gaussianiser: str | None
    base: str
    calibrations: tuple[str, ...]

    def __str__(self) -> str:
        front = f"{self.gaussianiser}:" if self.gaussianiser else ""
        return front + "+".join((self.base, *self.calibrations))

    @property
    def raw(self) -> ModelName:
        """The same model before calibration."""
        return ModelName(self.gaussianiser, self.base, ())

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name, or say what is wrong with it and what was meant."""
        front, colon, rest = text.strip().rpartition(":")
        base, *calibrations = rest.split("+")
        for part, known, what in [
            *([(front, GAUSSIANISER_NAMES, "transform")] if colon else []),
            (base, BASES, "model"),
            *((c, CALIBRATION_NAMES, "calibration") for c in calibrations),
        ]:
            if part not in known:
                close = get_close_matches(part, known, n=1)
                hint = f" Did you mean '{close[0]}'?" if close else ""
                raise LindleyError(
                    f"model '{text}': there is no {what} '{part}'.{hint} Known: {', '.join(known)}. "
                    "A name reads [transform:]model[+calibration…], as in yeo-johnson:tlm+logistic+elub."
                )
        return cls(front or None, base, tuple(calibrations))


def parse_models(names: Iterable[str]) -> tuple[ModelName, ...]:
    """All names, each once, in their order."""
    models = tuple(dict.fromkeys(ModelName.parse(name) for name in names))
    if not models:
        raise LindleyError("there is no model to run: give at least one, such as --models tlm+logistic")
    return models
