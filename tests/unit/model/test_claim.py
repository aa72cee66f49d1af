import pickle
from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape


def test_equal_shapes_are_one_key_however_they_were_made() -> None:
    shape = Shape(300, 8 * GIB, labels=(("zone", "west"),))
    again = replace(replace(shape, gpu_milli=400), gpu_milli=300)
    assert {shape: 1}[again] == 1
    assert hash(shape) != hash(replace(shape, host_bytes=1))


def test_a_shape_that_goes_to_another_process_does_not_take_its_hash_along() -> None:
    """Words hash differently in every process: with the old hash it would not be found among its
    equals there."""
    shape = Shape(300, model="T4")
    hash(shape)
    sent = pickle.loads(pickle.dumps(shape))
    assert set(vars(sent)) == set(Shape.__dataclass_fields__)
    assert {shape: 1}[sent] == 1
