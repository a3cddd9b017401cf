"""Loaded into pytest before comfy-kitchen's tests: what they call eager casts by lanecast. They choose backends by their names."""

import types

import lanecast.comfy as ours

eager = ours.eager
# What ours leaves to eager goes to eager's own functions still.
ours.eager = types.SimpleNamespace(**{name: getattr(eager, name) for name in ours.FUNCTIONS})
calls = dict.fromkeys(ours.FUNCTIONS, 0)


def counted(name):
    function = getattr(ours, name)

    def call(*arguments, **named):
        calls[name] += 1
        return function(*arguments, **named)

    return call


for name in ours.FUNCTIONS:
    setattr(eager, name, counted(name))


def pytest_sessionfinish(session):
    print("\ncalls of lanecast:", *(f"{name} {count}" for name, count in calls.items()))
    if not any(calls.values()):
        session.exitstatus = 1
