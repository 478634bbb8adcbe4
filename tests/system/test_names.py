from __future__ import annotations

import pytest

from lindley.calibration import CALIBRATIONS
from lindley.errors import LindleyError
from lindley.models.gaussianise import GAUSSIANISERS
from lindley.system.names import BASES, CALIBRATION_NAMES, GAUSSIANISER_NAMES, ModelName


def test_names_are_those_that_exist() -> None:
    assert set(CALIBRATION_NAMES) == set(CALIBRATIONS)
    assert set(GAUSSIANISER_NAMES) == set(GAUSSIANISERS)


@pytest.mark.parametrize("front", ["", "quantile:", "yeo-johnson:", "flow:"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("back", ["", "+logistic", "+kde+elub", "+logistic+elub", "+pav+iv"])
def test_round_trip(front: str, base: str, back: str) -> None:
    if base == "robust" and front:
        with pytest.raises(LindleyError, match="evens out its features by itself"):
            ModelName.parse(front + base + back)
        return
    assert str(ModelName.parse(front + base + back)) == front + base + back


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tml", "there is no model 'tml'. Did you mean 'tlm'?"),
        ("tlm+logistics", "there is no calibration 'logistics'. Did you mean 'logistic'?"),
        ("yeojohnson:tlm", "there is no transform 'yeojohnson'. Did you mean 'yeo-johnson'?"),
        (":tlm", "there is no transform ''"),
        ("tlm+", "there is no calibration ''"),
        ("", "there is no model ''"),
        ("quantile:yeo-johnson:tlm", "there is no transform 'quantile:yeo-johnson'"),
    ],
)
def test_wrong_names(text: str, message: str) -> None:
    with pytest.raises(LindleyError) as caught:
        ModelName.parse(text)
    assert message in str(caught.value)
    assert "as in yeo-johnson:tlm+logistic+elub" in str(caught.value)


def test_cross_fitting_behind_a_classical_name() -> None:
    name = ModelName.parse("tlm-kde+logistic+elub@cv")
    assert str(name) == "tlm-kde+logistic+elub@cv"
    assert [str(step) for step in (name.before, name.root)] == ["tlm-kde+logistic@cv", "tlm-kde@cv"]
    assert name.cross_fitted
    assert name.root != ModelName.parse("tlm-kde")
    for text, message in (
        ("tlm@cross", "only @cv can stand behind a name"),
        ("ntlm-single-pairs-n1@cv", "a trained model needs its validation sources"),
        ("quantile:tlm@cv", "without a transform"),
        ("robust@cv", "robust is cross-fitted"),
    ):
        with pytest.raises(LindleyError, match=message):
            ModelName.parse(text)
