from lila.results.classes import class_tables


def test_each_class_has_a_row_and_confusions_are_counted() -> None:
    by_class, confusions = class_tables([[8, 2, 0], [1, 9, 0], [0, 0, 0]], ["cat", "dog", "eel"])
    assert by_class.rows[0] == ["cat", "10", "80.0%", "88.9%", "dog (2)"]
    assert by_class.rows[2] == ["eel", "0", "-", "-", "-"]
    assert confusions.rows[1] == ["dog", "1", "9", "0"]


def test_of_many_classes_the_worst_are_shown() -> None:
    counts = [[0] * 30 for _ in range(30)]
    for i in range(30):
        counts[i][i], counts[i][(i + 1) % 30] = i + 1, 30 - i
    (table,) = class_tables(counts)
    assert [row[0] for row in table.rows] == [str(i) for i in range(20)]
    assert "20 of 30" in table.title
