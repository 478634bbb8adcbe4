from __future__ import annotations

import pytest

from lindley.calibration import CALIBRATIONS
from lindley.errors import LindleyError
from lindley.experiment.names import BASES, CALIBRATION_NAMES, GAUSSIANISER_NAMES, ModelName
from lindley.models.gaussianise import GAUSSIANISERS


def test_names_are_those_that_exist() -> None:
    assert set(CALIBRATION_NAMES) == set(CALIBRATIONS)
    assert set(GAUSSIANISER_NAMES) == set(GAUSSIANISERS)


@pytest.mark.parametrize("front", ["", "quantile:", "yeo-johnson:"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("back", ["", "+logistic", "+kde+elub", "+logistic+elub", "+pav+iv"])
def test_round_trip(front: str, base: str, back: str) -> None:
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
