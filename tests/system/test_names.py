from __future__ import annotations

import pytest

from lindley.errors import LindleyError
from lindley.system.names import ModelName, known_names


@pytest.mark.parametrize("front", ["", "quantile:", "yeo-johnson:", "flow:"])
@pytest.mark.parametrize("base", [name for name, _ in known_names()])
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
        ("robust@cv", "robust is cross-fitted"),
    ):
        with pytest.raises(LindleyError, match=message):
            ModelName.parse(text)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("ntlm-single-pairs-n1[epochs=500,orthonormal=qr]", {"epochs": 500, "orthonormal": "qr"}),
        (
            "ntlm-double-sources-n2-varying[learning_rate=0.003,samples=20]+logistic",
            {"learning_rate": 0.003, "samples": 20},
        ),
        ("robust[pretrain=a, b=c].csv]+elub", {"pretrain": "a, b=c].csv"}),
    ],
)
def test_options_are_written_and_read(text: str, options: dict[str, object]) -> None:
    name = ModelName.parse(text)
    assert dict(name.options) == options
    assert str(name) == text


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("tlm", {"pretrain": "a.csv"}, "there is no option pretrain; it has no options (pretrain: of robust, ntlm-"),
        ("robust", {"epochs": 3}, "there is no option epochs; its options are pretrain (epochs: of nplda, ntlm-"),
        ("nplda", {"batch": 3}, "there is no option batch; its options are epochs (batch: of ntlm-"),
        ("ntlm-single-pairs-n1", {"colour": 3}, "there is no option colour; its options are epochs, batch"),
        ("ntlm-single-pairs-n1", {"epochs": 0}, "epochs: Input should be greater than or equal to 1, and not 0"),
        ("ntlm-single-pairs-n1", {"samples": 3}, "samples is for a model whose variance is integrated as varying"),
        ("ntlm-single-pairs-n1-common", {"components": 2}, "integrated out of models with one component"),
    ],
)
def test_options_that_do_not_do(model: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(LindleyError) as told:
        ModelName.of(model, options=options)
    assert message in str(told.value)
