"""Many serials as few ranges."""

from holdfast.pipeline.lake.serial_ranges import SerialRanges, merge_ranges, ranges_of, span_ranges


def test_numbers_in_any_order_become_as_few_ranges_as_there_can_be() -> None:
    assert ranges_of(3, [9, 1, 3, 2, 2]) == SerialRanges(3, 4, ((1, 3), (9, 9)))
    assert ranges_of(3, []) == SerialRanges(3, 0, ())


def test_ranges_of_several_tasks_are_merged_by_shard() -> None:
    found = [ranges_of(1, [4, 5]), ranges_of(0, [1]), ranges_of(1, [1, 2, 3]), ranges_of(1, [9])]

    assert merge_ranges(found) == [SerialRanges(0, 1, ((1, 1),)), SerialRanges(1, 6, ((1, 5), (9, 9)))]


def test_a_span_goes_from_the_first_to_the_last() -> None:
    assert span_ranges([ranges_of(1, [4]), ranges_of(1, [9]), ranges_of(2, [])]) == [SerialRanges(1, 2, ((4, 9),))]
