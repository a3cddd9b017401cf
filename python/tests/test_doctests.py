"""The examples of the docstrings, and that every public name has one."""

import doctest
import inspect

import lanecast
import pytest


@pytest.mark.parametrize("name", lanecast.__all__)
def test_examples(name):
    thing = getattr(lanecast, name)
    text = inspect.getdoc(thing)
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert runner.run(test).failed == 0


def test_what_is_public_is_in_all():
    # Modules are there once somebody has imported them.
    things = vars(lanecast).items()
    public = {name for name, thing in things if not name.startswith("_") and name != "annotations" and not inspect.ismodule(thing)}
    assert public == set(lanecast.__all__)
