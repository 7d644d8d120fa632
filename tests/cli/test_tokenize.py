"""``tfinspect tokenize`` as a user meets it: a process with arguments, pipes, files, locales and exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

PLAIN = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}


def tokenize(*arguments: str | bytes, stdin: bytes = b"", **environ: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "tfinspect", "tokenize", *arguments],
        input=stdin,
        capture_output=True,
        env={**PLAIN, "PYTHONIOENCODING": "utf-8", **environ},
    )


def shown(*arguments: str | bytes, stdin: bytes = b"", **environ: str) -> str:
    done = tokenize(*arguments, stdin=stdin, **environ)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(environ.get("PYTHONIOENCODING", "utf-8"))


def document(*arguments: str | bytes, stdin: bytes = b"", **environ: str) -> Any:
    return json.loads(shown(*arguments, "--json", stdin=stdin, **environ))


def refused(*arguments: str | bytes, stdin: bytes = b"") -> str:
    done = tokenize(*arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (2, b"")
    complaint = done.stderr.decode()
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    return complaint


def test_json_has_the_ids_of_the_sample_text() -> None:
    # the chapters' sample text
    (text,) = document("蒔絵師が硯箱を")["texts"]
    assert text["ids"] == [164, 240, 242, 163, 113, 113, 30585, 104, 35585, 163, 94, 107, 163, 106, 109, 31758]
    assert (text["n_tokens"], text["n_characters"], text["n_bytes"]) == (16, 7, 21)
    assert [token["id"] for token in text["tokens"]] == text["ids"]
    assert text["tokens"][6]["parts"] == [
        {"character": "師", "char_index": 2, "first_byte": 1, "last_byte": 2, "n_bytes": 3}
    ]


def test_a_table_says_which_bytes_of_which_character() -> None:
    page = shown("蒔絵師が硯箱を")
    assert "bytes 1-2 of 3 of 師" in page
    assert '"が"' in page
    assert "50,257 entries" in page


def test_each_text_has_a_report_of_its_own() -> None:
    assert [text["origin"] for text in document("a", "b", "-", stdin=b"c")["texts"]] == [
        "text 1", "text 2", "standard input",
    ]  # fmt: skip


def test_a_raw_byte_of_an_argument_stays_that_byte() -> None:
    # Nayjest/ai-microcore #74: Python turns the argument's byte E9 into a surrogate
    (text,) = document(b"caf\xe9")["texts"]
    assert text["ids"] == [66, 1878, 165]
    assert text["n_invalid_bytes"] == 1
    assert text["exact"] is True
    assert "byte e9 outside UTF-8" in shown(b"caf\xe9")
    assert "Warning: 1 byte outside UTF-8" in shown(b"caf\xe9")
    assert document(b"\xff")["texts"][0]["ids"] == [187]


@pytest.mark.parametrize(
    "environ",
    [{}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONUTF8": "1"}],
    ids=["as it is", "C", "ASCII", "UTF-8 mode"],
)
def test_ids_do_not_depend_on_the_locale(environ: dict[str, str]) -> None:
    assert shown("--ids", "-", stdin=b"abc\xff\xfe", **environ) == "39305 187 186\n"
    assert shown("--ids", "蒔".encode(), **environ) == "164 240 242\n"


def test_nothing_is_cut_at_a_nul() -> None:
    (text,) = document("-", stdin=b"a\0b")["texts"]
    assert (text["ids"], text["n_tokens"]) == ([64, 188, 65], 3)
    assert r'"\x00"' in shown("-", stdin=b"a\0b")


@pytest.mark.parametrize(
    ("data", "ids"),
    [(b"a\r\nb", "64 201 198 65"), (b"a\r\n\r\nb", "64 201 198 201 198 65"), (b"   hi \n", "220 220 23105 220 198")],
)
def test_input_is_read_as_bytes(data: bytes, ids: str, tmp_path: Path) -> None:
    # openai/gpt-2 #80: nothing is stripped, no line end is translated
    (tmp_path / "text").write_bytes(data)
    assert shown("--ids", stdin=data) == f"{ids}\n"
    assert shown("--ids", "--file", str(tmp_path / "text")) == f"{ids}\n"


def test_a_million_letters_make_a_short_table(tmp_path: Path) -> None:
    # openai/tiktoken #15, #245: 250,000 tokens, each "^^^^"
    (tmp_path / "carets").write_bytes(b"^" * 1_000_000)
    page = shown("--file", str(tmp_path / "carets"), "--limit", "5")
    assert page.count('"^^^^"') == 5
    assert "249,995 tokens not shown" in page
    assert "250,000" in page
    assert "1,000,000" in page


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file without an end")
def test_an_input_without_an_end_is_refused() -> None:
    assert "--file '/dev/zero' goes beyond 33,554,432 bytes" in refused("--file", "/dev/zero")
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [sys.executable, "-m", "tfinspect", "trace"], stdin=endless, capture_output=True, env=PLAIN
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: standard input goes beyond 33,554,432 bytes")


def test_files_share_one_bound(tmp_path: Path) -> None:
    (tmp_path / "half").write_bytes(b"a" * (2**24 + 1))
    half = ("--file", str(tmp_path / "half"))
    assert shown("--ids", *half).count("24794") == 2**22  # "aaaa"
    assert "goes beyond 33,554,432 bytes" in refused(*half, *half)


def test_json_of_more_tokens_than_it_spells_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(bytes(2**20 + 1))  # no two NULs merge
    path = ("--file", str(tmp_path / "text"))
    assert "1,048,577 tokens and merges, and the most is 1,048,576" in refused("--json", *path)
    assert shown("--ids", *path).count("188") == 2**20 + 1


@pytest.mark.skipif(os.name != "posix", reason="a named pipe")
def test_a_text_comes_through_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "tfinspect", "tokenize", "--ids", "--file", str(tmp_path / "pipe")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=PLAIN) as process:
        (tmp_path / "pipe").write_bytes(b"Hello")
        assert process.communicate()[0] == b"15496\n"


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_a_limit_changes_no_total(limit: int) -> None:
    everything, limited = (document("Hello, world!", "--merges", "--limit", str(n))["texts"][0] for n in (1000, limit))
    assert limited == everything
    page = shown("Hello, world!", "--limit", str(limit))
    assert page.split("Totals\n")[1] == shown("Hello, world!").split("Totals\n")[1]


def test_the_special_token_is_text_unless_allowed() -> None:
    # simonw/ttok #13
    text = "a <|endoftext|> b"
    assert shown("--ids", text) == "64 1279 91 437 1659 5239 91 29 275\n"
    assert shown("--ids", "--allow-special", text) == "64 220 50256 275\n"
    assert "special tokens read as text" in shown(text)
    assert "special tokens honoured" in shown(text, "--allow-special")
    assert document(text, "--allow-special")["allow_special"] is True


@pytest.mark.parametrize(("arguments", "stdin"), [(("",), b""), (("-",), b""), ((), b"")])
def test_no_text_is_no_tokens(arguments: tuple[str, ...], stdin: bytes) -> None:
    # huggingface/transformers #3678
    (text,) = document(*arguments, stdin=stdin)["texts"]
    assert (text["ids"], text["n_tokens"], text["bytes_per_token"]) == ([], 0, None)
    assert "n/a" in shown(*arguments, stdin=stdin)


@pytest.mark.parametrize(
    ("ids", "text"), [("88 318 5633", "y is ?"), ("5633", " ?"), ("1169 2151 764 764 764 287", "the party . . . in")]
)
def test_decoding_keeps_spaces(ids: str, text: str) -> None:
    # huggingface/transformers #21119, #31884
    answer = document("--decode", *ids.split())
    assert (answer["text"], answer["bytes"], answer["valid_utf8"]) == (text, text.encode().hex(), True)
    assert f'"{text}"' in shown("--decode", *ids.split())


def test_ids_go_through_a_pipe_and_back() -> None:
    ids = shown("--ids", "-", stdin=" näher\r\n".encode() + b"\xff")
    assert document("--decode", "-", stdin=ids.encode())["bytes"] == (" näher\r\n".encode() + b"\xff").hex()
    assert document("--decode", "[88, 318, 5633]")["text"] == "y is ?"


def test_decoded_bytes_outside_utf8_are_said_to_be() -> None:
    answer = document("--decode", "47249")
    assert (answer["bytes"], answer["text"], answer["valid_utf8"]) == ("f09f98", None, False)
    assert "bytes f09f98 outside UTF-8" in shown("--decode", "47249")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--decode", "64", "50257"), "id 50257 at position 1 is not in GPT-2's vocabulary"),
        (("--decode", "--", "-1"), "id -1 at position 0"),
        (("--decode", "1.0"), "id '1.0' at position 0 is not an integer"),
        (("--decode", "9" * 5000), "is not an integer"),
        (("--limit", "-1", "a"), "--limit -1"),
        (("--file", "no such file"), "'no such file'"),
        (("--file", "."), "directory"),
        (("--file", ""), "names no file"),
        (("-", "-"), "given twice"),
        (("--decode", "--merges", "1"), "--decode and --merges"),
        (("--ids", "--json", "a"), "--ids and --json"),
        # without -- a text that begins with a dash looks like an option
        (("-5",), "-- -5"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_text_that_looks_like_an_option() -> None:
    assert shown("--ids", "--", "-5") == "12 20\n"
    assert shown("--ids", "-", stdin=b"-5") == "12 20\n"
    assert shown("--ids", "--", "--help") == "438 16794\n"


@pytest.mark.parametrize(
    ("text", "ids"), [("*", "9"), ("%PATH%", "4 34219 4"), ("[", "58"), (":smile:", "25 5796 576 25")]
)
def test_arguments_are_not_expanded(text: str, ids: str) -> None:
    # pallets/click #2782, Textualize/rich #1157
    assert shown("--ids", text) == f"{ids}\n"


@pytest.mark.parametrize("text", ["[INST]", "[/INST]", "[bold]x[/bold]", "a [x] b", ":smile:"])
@pytest.mark.parametrize("options", [(), ("--merges",)])
def test_text_is_shown_as_it_is(text: str, options: tuple[str, ...]) -> None:
    assert f': "{text}"' in shown(text, *options)


def test_json_is_whole_on_a_narrow_page() -> None:
    # Textualize/rich #1591
    text = "x" * 200
    answer = document(text, COLUMNS="20", FORCE_COLOR="1")
    assert bytes.fromhex("".join(token["bytes"] for token in answer["texts"][0]["tokens"])).decode() == text
    assert answer["schema"] == "tfinspect.tokens/1"
    assert type(answer["texts"][0]["n_tokens"]) is int


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_fits_the_encoding_of_the_stream(encoding: str) -> None:
    # TylerYep/torchinfo #96: a character that the stream cannot carry
    page = shown("蒔é→👨", "--merges", PYTHONIOENCODING=encoding)
    assert r"\u8494" in page
    assert json.loads(shown("蒔", "--json", PYTHONIOENCODING=encoding))["texts"][0]["ids"] == [164, 240, 242]


@pytest.mark.parametrize(("encoding", "seen"), [("ascii", r"\u2192\xd7"), ("cp1252", "\\u2192×")])
def test_a_users_text_is_escaped_and_never_respelled(encoding: str, seen: str, tmp_path: Path) -> None:
    # "×" is "x" in tfinspect's own words on a page of ASCII; in a user's text or file name that would be another text
    (tmp_path / "→×").write_text("→×", encoding="utf-8")
    page = shown("→×", "--file", str(tmp_path / "→×"), "--merges", PYTHONIOENCODING=encoding)
    words = " ".join(page.split())
    for title in ("Tokens of", "Merges of", "Totals of"):
        assert f'{title} text 1: "{seen}" ' in words
    assert f'/{seen}: "{seen}" ' in words  # the file's name, and its text
    assert f'\n"{seen}": ids ' in page  # the heading over the merges
    assert not re.search(r"->|x\"", words)


def test_columns_stay_aligned_beside_wide_characters() -> None:
    # Textualize/rich #25: a character may take one cell or two
    lines = shown("你好 \uff21 \uff71 한 e\u0301 蒔").splitlines()
    at = next(at for at, line in enumerate(lines) if "from byte" in line)
    column = lines[at].index("from byte")
    rows = [line for line in lines[at:] if line[:2].strip().isdigit()]
    assert len(rows) > 8
    for row in rows:
        byte = row.split()[-1]
        start = cell_len(row[: -len(byte)])
        assert column <= start <= column + 2


def test_no_line_is_wider_than_80_cells() -> None:
    page = shown("the therapist said: 蒔絵師 👨‍👩‍👧 " + "a" * 300, "--merges")
    assert all(cell_len(line) <= 80 for line in page.splitlines())


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    # Textualize/rich PR #3233: a table far longer than a pipe holds
    (tmp_path / "text").write_bytes(b"word " * 20_000)
    command = [sys.executable, "-m", "tfinspect", "tokenize", "--limit", "20000", "--file", str(tmp_path / "text")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_merges_are_shown_step_by_step_and_checked() -> None:
    page = shown("hello", "--merges")
    assert '"hello": id 31373' in page
    assert '"he" "ll" "o"' in page
    assert "agree" in page
    (piece,) = document("hello", "--merges")["texts"][0]["pretokens"]
    assert [merge["rank"] for merge in piece["merges"]] == sorted(merge["rank"] for merge in piece["merges"])


def test_neither_torch_nor_numpy_is_imported() -> None:
    program = (
        "import sys; from tfinspect.cli.app import main; code = main(['tokenize', 'hi', '--merges']);"
        "sys.stderr.write(repr((code, sorted({'torch', 'numpy', 'regex', 'requests'} & set(sys.modules)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=PLAIN)
    assert done.stderr == b"(0, [])"
