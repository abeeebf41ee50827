"""Every worker loads the model once."""

import multiprocessing
import sys

import numpy as np

model = None


def prepare(path):
    global model
    import coremlscope

    model = coremlscope.open(path)
    model.prepare()


def answer(seed):
    x = np.random.default_rng(seed).random((1, 4, 16, 16), np.float32)
    return model.predict({"x": x})["y"].shape


if __name__ == "__main__":
    path = f"{sys.argv[1]}/net.mlpackage"
    with multiprocessing.get_context("fork").Pool(2, prepare, (path,)) as pool:
        print(pool.map(answer, range(24)))
        pool.close()
        pool.join()
