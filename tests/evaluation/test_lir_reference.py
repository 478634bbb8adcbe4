"""Agreement with LiR 1.8.0 (https://github.com/NetherlandsForensicInstitute/lir).

The numbers are what LiR's ``cllr``, ``cllr_min``, ``devpav``, ``elub``, ``calculate_invariance_bounds``,
``IsotonicCalibrator(add_misleading=1)`` at AT and ``calculate_ece`` at PRIOR gave for the LLRs of ``sets``.
Left out: devPAV of separated LLRs (LiR: NaN), ECE of heavy tails (LiR: inf), and IV bounds where LiR's index
wraps round ("positive": with Δ_upper < 0 at the first threshold LiR answers with the last one, 2.989).
"""

import numpy as np
import pytest

from lindley.calibration import Pav, elub, iv
from lindley.evaluation import cllr, cllr_min, devpav, ece
from lindley.llrs import LLRs

AT = np.array([-4.0, -1.03, -0.2, 0.35, 1.1, 2.7, 9.0])  # log10
PRIOR = np.array([-2.0, -0.5, 0.0, 1.0])  # log10 odds


def sets() -> dict[str, LLRs]:
    rng = [np.random.default_rng(seed) for seed in range(8)]
    return {
        "normal": LLRs(rng[1].normal(1.5, 1, 60), rng[1].normal(-2, 1.5, 900)),
        "overconfident": LLRs(3 * rng[2].normal(1, 1, 150), 3 * rng[2].normal(-1, 1, 400)),
        "rounded": LLRs(np.round(rng[3].normal(0.6, 0.8, 80), 1), np.round(rng[3].normal(-0.6, 0.8, 500), 1)),
        "separated": LLRs(rng[4].uniform(1, 6, 50), rng[4].uniform(-8, -1, 300)),
        "wrong": LLRs(rng[5].normal(-1, 1, 40), rng[5].normal(1, 1, 200)),
        "heavy": LLRs(rng[6].standard_t(2, 200) * 2 + 2, rng[6].standard_t(2, 3000) * 3 - 5),
        "positive": LLRs(rng[7].uniform(0.5, 3, 30), rng[7].uniform(0.1, 1, 100)),
    }


LIR = {
    "normal": {
        "cllr": 0.2592311931886501,
        "cllr_min": 0.2203306633649421,
        "devpav": 0.4304600244348111,
        "elub": (-1.59, 1.7),
        "iv": (-1.8362074564951, 1.7167925435061),
        "pav": (
            -1.6374630735505,
            -1.020936742202,
            -0.2016729063034,
            0.5325728583811,
            1.3155229916465,
            1.8294468942739,
            1.8294468942739,
        ),
        "ece": (0.0451156866155, 0.2308333926361, 0.2592311931887, 0.119106395545),
    },
    "overconfident": {
        "cllr": 0.7828694584542157,
        "cllr_min": 0.4303685349044701,
        "devpav": 1.8751426103996554,
        "elub": (-0.95, 0.94),
        "iv": (-0.9657858689629, 0.9502141310361),
        "pav": (
            -1.0306774346815,
            -0.5240009364001,
            0.2023186757107,
            0.2992286887187,
            0.3545314971856,
            1.026227416655,
            1.7463867200609,
        ),
        "ece": (0.2673069537471, 0.712708353654, 0.7828694584543, 0.4724139574748),
    },
    "rounded": {
        "cllr": 0.78101930564242,
        "cllr_min": 0.71093530783813,
        "devpav": 0.27898098147176204,
        "elub": (-0.59, 1.09),
        "iv": (-0.5990000000003, 1.1289999999995),
        "pav": (
            -0.6929471323582,
            -0.6379957659351,
            -0.1236365033031,
            0.3008698484584,
            1.0287136227832,
            1.4903227113246,
            1.4903227113246,
        ),
        "ece": (0.0687114941374, 0.6178545843328, 0.7810193056424, 0.3922261571157),
    },
    "separated": {
        "cllr": 0.007291552382221558,
        "cllr_min": 0.0,
        "elub": (-1.65, 2.37),
        "iv": (-1.925193615924, 2.6788063840776),
        "pav": (
            -1.7061249352238,
            -1.7061249352238,
            -0.2736201943853,
            0.1225063249963,
            0.8393235600659,
            2.4699663238319,
            2.4699663238319,
        ),
        "ece": (0.0027624172859, 0.0057430836019, 0.0072915523822, 0.0083207513893),
    },
    "wrong": {
        "cllr": 4.254943502351033,
        "cllr_min": 1.0000000000000002,
        "devpav": 1.6681244804528554,
        "elub": (0.0, 0.0),
        "iv": (0.0, 0.0),
        "pav": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "ece": (0.6574967640742, 3.4982260746966, 4.254943502351, 2.5385711475739),
    },
    "heavy": {
        "cllr": 2.371233075864739,
        "cllr_min": 0.5259494317341624,
        "devpav": 95.66150191831042,
        "elub": (-0.74, 0.87),
        "iv": (-0.7539999999765, 0.8780000000255),
        "pav": (
            -0.8345302337576,
            -0.0056254453201,
            0.3227895844899,
            0.853734787145,
            0.853734787145,
            0.9154983813633,
            0.9154983813633,
        ),
    },
    "positive": {
        "cllr": 1.1303065869217452,
        "cllr_min": 0.23617385746677994,
        "devpav": 1.3438783535166654,
        "elub": (0.0, 0.0),
        "pav": (
            -1.1682815574272,
            -1.1682815574272,
            -1.1682815574272,
            -1.1682815574272,
            1.9279330279192,
            1.9279330279192,
            1.9279330279192,
        ),
        "ece": (0.0741435476501, 0.8982456743853, 1.1303065869217, 0.47482648706),
    },
}

OURS = {
    "cllr": cllr,
    "cllr_min": cllr_min,
    "devpav": devpav,
    "elub": elub,
    "iv": iv,
    "pav": lambda llrs: Pav.fit(llrs)(AT),
    "ece": lambda llrs: ece(llrs, PRIOR).system,
}


@pytest.mark.parametrize(("name", "quantity"), [(n, q) for n, values in LIR.items() for q in values])
def test_agrees_with_lir(name, quantity):
    np.testing.assert_allclose(OURS[quantity](sets()[name]), LIR[name][quantity], rtol=1e-10, atol=1e-10)
