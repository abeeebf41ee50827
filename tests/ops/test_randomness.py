from __future__ import annotations

import numpy as np
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.programs import bind_main, build, run, run_onnx

ONE = np.ones(1, np.float32)
SHAPE = np.array([40, 500], np.int32)


def test_distributions():
    def body(shape):
        sizes = {"fixed": SHAPE, "dynamic": shape}
        return [
            draw(shape=size, seed=seed)
            for size in sizes.values()
            for draw, seed in [
                (lambda **g: mb.random_uniform(low=-1.0, high=3.0, **g), 3),
                (lambda **g: mb.random_normal(mean=5.0, stddev=2.0, **g), -1),
                (lambda **g: mb.random_bernoulli(prob=0.3, **g), 7),
            ]
        ]

    for uniform, normal, bernoulli in np.reshape(run(body, {"shape": SHAPE}), (2, 3, 40, 500)):
        assert -1 <= uniform.min() < -0.99
        assert 2.99 < uniform.max() < 3
        assert abs(uniform.mean() - 1) < 0.05
        assert abs(normal.mean() - 5) < 0.1
        assert abs(normal.std() - 2) < 0.1
        assert set(np.unique(bernoulli)) == {0, 1}
        assert abs(bernoulli.mean() - 0.3) < 0.02


def test_distributions_without_any_spread():
    def body(shape):
        return [
            draw(shape=size)
            for size in (SHAPE, shape)
            for draw in [
                lambda **g: mb.random_uniform(low=4.0, high=4.0, **g),
                lambda **g: mb.random_normal(mean=4.0, stddev=0.0, **g),
            ]
        ]

    assert np.unique(run(body, {"shape": SHAPE})) == 4


def test_bounds_in_the_wrong_order_do_not_end_the_process():
    (drawn,) = run(lambda x: mb.random_uniform(shape=SHAPE, low=3.0, high=1.0), {"x": ONE})
    assert 1 <= drawn.min() < drawn.max() <= 3


def test_categorical():
    logits = np.log(np.array([[0.1, 0.9], [0.5, 0.5], [1.0, 1e-9]], np.float32))

    def body(x):
        return [
            mb.random_categorical(x=x, size=4000, seed=1),
            mb.random_categorical(x=mb.exp(x=x), mode="probs", size=4000, seed=2),
            mb.random_categorical(x=mb.reshape(x=x, shape=(1, 3, 2)), size=4000),
        ]

    for drawn in run(body, {"x": logits}):
        np.testing.assert_allclose(drawn.reshape(3, 4000).mean(1), [0.9, 0.5, 0], atol=0.04)


def test_a_seed_gives_the_same_sequence_each_time_a_program_is_loaded():
    program = lower(bind_main(build(lambda x: mb.random_normal(shape=[100], seed=5), {"x": ONE})))
    first, second = (next(iter(run_onnx(program, {"x": ONE}).values())) for _ in range(2))
    np.testing.assert_array_equal(first, second)
