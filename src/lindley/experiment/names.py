"""Names of models: ``[gaussianiser:]base[+calibration …]``, as in ``yeo-johnson:tlm-kde+logistic+elub``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from lindley.errors import LindleyError

__all__ = [
    "BASES",
    "CALIBRATION_NAMES",
    "CLASSICAL",
    "GAUSSIANISER_NAMES",
    "INTEGRATIONS",
    "NEURAL",
    "ModelName",
    "parse_models",
]

# Names only, so that `lindley --help` loads neither torch nor scikit-learn; a test holds them to what there is.
CLASSICAL = {
    "tlm": "two-level model, normal between sources",
    "tlm-kde": "two-level model, kernel density between sources",
}
NEURAL = {
    f"ntlm-{projection}-{mode}-n{within}": f"neural two-level model, {projection} projection, trained on {mode}, "
    f"{'one within variance' if within == 1 else 'within variances for trace and ref'}"
    for projection in ("single", "double")
    for mode in ("pairs", "sources")
    for within in (1, 2)
}
INTEGRATIONS = {
    "common": "the variance, common to all sources, integrated out",
    "varying": "the within variance, varying between sources, integrated out",
}
BASES = {
    **CLASSICAL,
    **NEURAL,
    **{f"{name}-{law}": f"{text}; {about}" for name, text in NEURAL.items() for law, about in INTEGRATIONS.items()},
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
    def before(self) -> ModelName | None:
        """What must be there first: the model without its last calibration, or without its integration; or nothing."""
        if self.calibrations:
            return ModelName(self.gaussianiser, self.base, self.calibrations[:-1])
        if self.integration:
            return ModelName(self.gaussianiser, self.base.removesuffix(f"-{self.integration}"), ())
        return None

    @property
    def integration(self) -> str | None:
        """How the variance is integrated out, if it is."""
        return next((law for law in INTEGRATIONS if self.base.endswith(f"-{law}")), None)

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
                    f"model '{text}': there is no {what} '{part}'.{hint} Known: {_listing(known)}. "
                    "A name reads [transform:]model[+calibration…], as in yeo-johnson:tlm+logistic+elub."
                )
        return cls(front or None, base, tuple(calibrations))


def _listing(known: Mapping[str, str]) -> str:
    """The known names; the many neural models as a pattern."""
    neural = "ntlm-{single,double}-{pairs,sources}-{n1,n2} with -common or -varying behind, or neither"
    names = [name for name in known if not name.startswith("ntlm-")]
    return ", ".join(names + ([neural] if len(names) < len(known) else []))


def parse_models(names: Iterable[str]) -> tuple[ModelName, ...]:
    """All names, each once, in their order."""
    models = tuple(dict.fromkeys(ModelName.parse(name) for name in names))
    if not models:
        raise LindleyError("there is no model to run: give at least one, such as --models tlm+logistic")
    return models
