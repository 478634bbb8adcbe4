"""Names of models: ``[gaussianiser:]base[+calibration …]``, as in ``yeo-johnson:tlm-kde+logistic+elub``.

``@cv`` behind it means cross-fitting: the model learns from train and validation sources, and is calibrated on pairs of them
that were held out of the fit, as in ``tlm+logistic@cv``. Options that differ from the defaults follow the base in brackets,
``ntlm-single-pairs-n1[orthonormal=qr]+logistic``; such names are made by an experiment file, and not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from lindley.errors import LindleyError

__all__ = [
    "BASES",
    "CALIBRATION_NAMES",
    "CLASSICAL",
    "GAUSSIANISER_NAMES",
    "INTEGRATIONS",
    "NEURAL",
    "NPLDA",
    "ROBUST",
    "ModelName",
]

# Names only, so that `lindley --help` loads neither torch nor scikit-learn; a test holds them to what there is.
CLASSICAL = {
    "tlm": "two-level model, normal between sources",
    "tlm-kde": "two-level model, kernel density between sources",
    "tlm-bayes": "two-level model, its means and covariances integrated out (normal, inverse Wishart)",
    "ht-plda": "heavy-tailed PLDA: Student-t within and between sources",
}
ROBUST = "robust"
NPLDA = "nplda"
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
INTEGRATION_OPTIONS = ("samples",)
"""Options that only matter once the variance is integrated out: models that differ in them share their training."""
BASES = {
    ROBUST: "robust model: heavy tails, kernel densities and relatedness, cross-fitted on train and validation sources",
    **CLASSICAL,
    NPLDA: "neural PLDA: a quadratic score trained on a soft detection cost",
    **NEURAL,
    **{f"{name}-{law}": f"{text}; {about}" for name, text in NEURAL.items() for law, about in INTEGRATIONS.items()},
}
GAUSSIANISER_NAMES = {
    "quantile": "marginal quantile transform in front",
    "yeo-johnson": "marginal Yeo-Johnson transform in front",
    "flow": "normalising flow in front, of all features together (needs the extra 'flows')",
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
    options: tuple[tuple[str, str | int | float], ...] = ()  # those that were given, by name
    cross_fitted: bool = False  # @cv: fitted on train and validation sources, calibrated on pairs held out of the fit

    def __str__(self) -> str:
        front = f"{self.gaussianiser}:" if self.gaussianiser else ""
        options = ",".join(f"{name}={value}" for name, value in self.options)
        name = front + "+".join((self.base + (f"[{options}]" if options else ""), *self.calibrations))
        return name + ("@cv" if self.cross_fitted else "")

    @property
    def before(self) -> ModelName | None:
        """What must be there first: the model without its last calibration, or without its integration; or nothing."""
        if self.calibrations:
            return replace(self, calibrations=self.calibrations[:-1])
        if self.integration:
            kept = tuple(option for option in self.options if option[0] not in INTEGRATION_OPTIONS)
            return replace(self, base=self.base.removesuffix(f"-{self.integration}"), options=kept)
        return None

    @property
    def root(self) -> ModelName:
        """The model that everything builds on: fitted or trained, without integration and calibration."""
        return self if self.before is None else self.before.root

    @property
    def learns_from_all(self) -> bool:
        """Whether it learns from train and validation sources alike, so that its validation pairs are held out of a fit."""
        return self.cross_fitted or self.root.base == ROBUST

    @property
    def is_trained(self) -> bool:
        """Whether validation sources choose the epoch of its training."""
        return self.root.base in NEURAL or self.root.base == NPLDA

    @property
    def integration(self) -> str | None:
        """How the variance is integrated out, if it is."""
        return next((law for law in INTEGRATIONS if self.base.endswith(f"-{law}")), None)

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name, or say what is wrong with it and what was meant."""
        whole, at, how = text.strip().partition("@")
        if at and how != "cv":
            raise LindleyError(
                f"model '{text}': only @cv can stand behind a name, for cross-fitting, as in tlm+logistic@cv."
            )
        front, colon, rest = whole.rpartition(":")
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
        if base == ROBUST and (colon or at):
            raise LindleyError(
                f"model '{text}': robust is cross-fitted and evens out its features by itself. Leave out what stands in "
                "front of it and @cv."
            )
        if at and (base not in CLASSICAL or colon):
            raise LindleyError(
                f"model '{text}': @cv is for {' and '.join(CLASSICAL)}, without a transform in front: a trained model needs "
                "its validation sources to know when to stop."
            )
        return cls(front or None, base, tuple(calibrations), cross_fitted=bool(at))


def _listing(known: Mapping[str, str]) -> str:
    """The known names; the many neural models as a pattern."""
    neural = "ntlm-{single,double}-{pairs,sources}-{n1,n2} with -common or -varying behind, or neither"
    names = [name for name in known if not name.startswith("ntlm-")]
    return ", ".join(names + ([neural] if len(names) < len(known) else []))
