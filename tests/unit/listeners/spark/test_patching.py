"""Wrapping methods and restoring them."""

from listeners.spark.patching import Patches


def make():
    class Greeter:
        def greet(self, name):
            return "hello " + name

    return Greeter


def shout(original, self, *args):
    return original(self, *args).upper()


def test_wrapper_sees_the_call_and_the_original_is_restored():
    greeter, patches = make(), Patches()
    original = greeter.greet
    patches.wrap(greeter, "greet", shout)
    assert greeter().greet("you") == "HELLO YOU" and greeter.greet.__name__ == "greet"
    patches.undo()
    assert greeter.greet is original


def test_later_wrapper_of_another_library_stays():
    greeter, patches = make(), Patches()
    patches.wrap(greeter, "greet", shout)
    ours = greeter.greet
    greeter.greet = lambda self, name: "<" + ours(self, name) + ">"
    patches.undo()
    assert greeter().greet("you") == "<hello you>"


def test_missing_method_is_skipped():
    greeter, patches = make(), Patches()
    patches.wrap(greeter, "clusterBy", shout)
    assert not hasattr(greeter, "clusterBy")
