"""What cannot be encoded or decoded is named."""

import pytest

from tfinspect.errors import InputError
from tfinspect.inspectors.tokens import decode, tokens


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([64, 50_257], "id 50257 at position 1"),
        ([-1], "id -1 at position 0"),
        ([64, 65, 1.0], "id 1.0 at position 2 is not an integer"),
        ([True], "id True at position 0 is not an integer"),
        (["64"], "id '64' at position 0 is not an integer"),
    ],
)
def test_an_id_outside_the_vocabulary_is_named_with_its_position(ids: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        decode(ids)


def test_a_text_is_a_string_or_bytes() -> None:
    with pytest.raises(InputError, match="not int"):
        tokens(5)  # type: ignore[arg-type]
