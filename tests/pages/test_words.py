"""Names and facts in words."""

from __future__ import annotations

import pytest

from lindley.pages.run_words import kind, label, list_facts as facts_of
from lindley.system.names import ModelName
from lindley.table.config import DataConfig


@pytest.mark.parametrize(
    ("name", "words", "family", "heading"),
    [
        ("tlm", "TLM", "benchmark", "raw TLM"),
        ("tlm-kde", "TLM-KDE", "benchmark", "raw TLM-KDE"),
        ("yeo-johnson:tlm+logistic+elub", "Yeo-Johnson, TLM + logistic + ELUB", "benchmark", "after logistic + ELUB"),
        ("robust", "robust", "robust", "raw robust"),
        ("ntlm-double-pairs-n1", "pairs, N=1", "double", "point value"),
        ("ntlm-single-pairs-n2", "pairs, N=2", "single", "point value"),
        ("ntlm-single-sources-n2-varying", "sources, N=2, varying", "single", "varying, integrated"),
        ("ntlm-double-pairs-n2-common", "pairs, N=2, common", "double", "common, integrated"),
        ("ntlm-single-pairs-n2-common+pav", "pairs, N=2, common + PAV", "single", "after PAV"),
    ],
)
def test_labels(name: str, words: str, family: str, heading: str) -> None:
    spec = ModelName.parse(name)
    assert label(name, spec) == words
    assert spec.kind.family == family
    assert kind(spec) == heading
    assert label("my own", spec) == "my own"


def test_options() -> None:
    spec = ModelName.parse("ntlm-single-pairs-n2-varying[orthonormal=qr,samples=2000]")
    assert label(str(spec), spec) == "pairs, N=2, varying, orthonormal qr, samples 2000"
    assert kind(spec) == "varying, integrated, samples 2000"  # panels side by side share the other option


CONTENT = {
    "data": {"name": "glass", "rows": 6318, "sources": 1053, "groups": 1053, "features": ["K", "Ti"], "sha256": "ab12"},
    "protocol": {"splits": 21, "replicates": 3, "trace_instances": 1, "shares": [1.0, 1.0, 0.5], "seed": 7},
    "training": {"epochs": 2000, "batch": 50, "learning_rate": 1e-3, "weight_decay": 0.01, "device": "cuda"},
    "environment": {
        "lindley": "0.1.0", "numpy": "2.4", "code_sha256": "cd34", "python": "3.11.7",
        "platform": "Linux-6", "machine": "x86_64", "cores": 2,
    },
}  # fmt: skip


def test_facts() -> None:
    facts = facts_of(CONTENT, DataConfig(data="glass.csv"), neural=True)
    assert dict(facts) == {
        "Data": "glass: 6,318 measurements of 1,053 sources",
        "Features": "2: K, Ti",
        "Fingerprint of the data": "SHA-256 ab12",
        "Protocol": "21 random splits of the sources into training, validation and test (1 : 1 : 0.5); 3 measurements "
        "drawn of every source, 1 as the trace and 2 as the ref",
        "Seed": "7",
        "Training": "2000 epochs, batches of 50, learning rate 0.001, weight decay 0.01, on a GPU",
        "Software": "lindley 0.1.0, Python 3.11.7, numpy 2.4",
        "Fingerprint of the code": "SHA-256 cd34",
        "Machine": "Linux-6, x86_64, 2 cores",
    }


def test_facts_that_are_not_always_there() -> None:
    content = {**CONTENT, "data": {**CONTENT["data"], "groups": 900}}  # type: ignore[dict-item]
    source = DataConfig(data="glass.csv", transform="log10", reference_column="Si28")
    facts = dict(facts_of(content, source, neural=False))
    assert "Training" not in facts
    assert facts["Groups"].startswith("900; ")
    assert facts["Transform"] == "log10 of the ratio to Si28"
