"""What a plan says of its own length while it runs."""

from noisewise.planning.duration import Counted, Pace


def said(times, fits=24, recalibrate=128, group=8):
    """Sentences of a plan whose groups of fits end at these times."""
    clock = iter(times)
    pace = Pace(fits, recalibrate, lambda: next(clock))
    return [pace.estimate(group * (k + 1)) for k in range(len(times))]


def test_the_estimate_leaves_compilation_out_and_is_said_once():
    first, second, *rest = said([60.0, 64.0, 68.0, 72.0])
    assert first is None and rest == [None, None]
    # Half a second a fit: 152 to 376 of them, of which 16 are done.
    assert second == "152 to 376 simulated fits at 0.5 s each: about 1 to 3 minutes to go"


def test_short_plans_are_told_in_seconds():
    assert said([5.0, 5.8])[-1] == (
        "152 to 376 simulated fits at 0.1 s each: about 14 to 36 seconds to go"
    )


def test_a_plan_of_one_group_says_nothing():
    assert said([1.0], fits=4, recalibrate=4) == [None]


def test_progress_is_live_and_ends_at_its_end():
    seen = []
    counted = Counted(24, 128, lambda done, most: seen.append((done, most)))
    for _ in range(19):
        counted.more(8)
    counted.finish()
    assert [done for done, _ in seen[:-1]] == list(range(8, 153, 8))
    assert {most for _, most in seen} == {376}
    assert seen[-1] == (376, 376)


def test_a_quick_guess_has_no_progress():
    seen = []
    Counted(0, 128, lambda *both: seen.append(both)).finish()
    assert seen == []
