"""Wrapping methods, and unwrapping only what is still ours."""

from listeners.spark.patching import Patches


def make():
    class Greeter:
        def greet(self, name):
            return "hello " + name

    return Greeter


def shout(original, self, *args):
    return original(self, *args).upper()


def test_a_wrapper_sees_the_call_and_the_original_comes_back():
    greeter, patches = make(), Patches()
    original = greeter.greet
    patches.wrap(greeter, "greet", shout)
    assert greeter().greet("you") == "HELLO YOU" and greeter.greet.__name__ == "greet"
    patches.undo()
    assert greeter.greet is original


def test_a_wrapper_put_over_ours_stays_and_ours_falls_silent():
    greeter, patches = make(), Patches()
    patches.wrap(greeter, "greet", shout)
    ours = greeter.greet
    greeter.greet = lambda self, name: "<" + ours(self, name) + ">"
    patches.undo()
    assert greeter().greet("you") == "<hello you>"


def test_a_method_that_this_version_lacks_is_left_out():
    greeter, patches = make(), Patches()
    patches.wrap(greeter, "clusterBy", shout)
    assert not hasattr(greeter, "clusterBy")
