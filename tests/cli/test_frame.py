"""The frame of the program: help, errors, exit codes, encodings, colours, pipes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Program, command, environment

COMMANDS = ("tokenize", "trace", "params", "flops")
LONG = ("params", "--preset", "gpt2-xl", "--per-tensor", "--no-check")
"""A report of more than 64 kB, the size of a pipe's buffer."""

posix = pytest.mark.skipif(os.name != "posix", reason="pipes, signals and terminals of POSIX")


def one_error(text: str) -> bool:
    """Whether this is one error in the project's form."""
    return text.startswith("error: ") and text.count("\n") == 1 and text.endswith("\n") and "Traceback" not in text


def run_with(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The program with one more command, whose body is this code."""
    program = f"""
import os, signal, sys
from tfinspect.cli.app import app, run
from tfinspect.cli.command import Command

@app.command(cls=Command)
def ends() -> None:
    {code}

run()
"""
    return subprocess.run(
        [sys.executable, "-c", program, *(words or ["ends"])],
        capture_output=True, text=True, env=environment({}), check=False,
    )  # fmt: skip


# Help and version


def test_no_words_are_a_call_for_help(tfinspect: Program) -> None:
    bare, short, long = tfinspect(), tfinspect("-h"), tfinspect("--help")
    assert bare == short == long
    assert (bare.code, bare.err) == (0, "")
    assert all(f"\n  {name} " in bare.out for name in COMMANDS)


def test_the_module_is_the_program(tfinspect: Program) -> None:
    words = [sys.executable, "-m", "tfinspect", "--version"]
    module = subprocess.run(words, capture_output=True, text=True, env=environment({}), check=True)
    assert module.stdout == tfinspect("--version").out


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)])
def test_help_is_readable_on_a_narrow_dumb_ascii_page(tfinspect: Program, words: tuple[str, ...]) -> None:
    env = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    help = tfinspect(*words, "--help", env=env)
    assert (help.code, help.err) == (0, "")
    assert help.out.isascii()
    assert "\x1b" not in help.out
    indented = [line for line in help.out.splitlines() if line.startswith("  tfinspect ")]  # examples stay in one line
    assert max(len(line) for line in help.out.splitlines() if line not in indented) <= 40


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(tfinspect: Program, name: str) -> None:
    assert max(map(cell_len, tfinspect(name, "--help").out.splitlines())) <= 80


# Errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tokenise"], "unknown command 'tokenise'; did you mean tokenize?"),
        (["--json"], "unknown option '--json'; options come after the command: tfinspect COMMAND --json"),
        (["params", "--jsno"], "unknown option '--jsno'; did you mean --json?"),
        (["params", "--qqqqq"], "unknown option '--qqqqq'; see tfinspect params --help"),
        (["params", "stray"], "unknown preset 'stray'; known: gpt2"),
        (["params", "gpt2", "stray"], "(stray); see tfinspect params --help"),
        (["params", "--d"], "'--d' requires an argument; see tfinspect params --help"),
        (["params", "--d", "abc"], "'abc'"),
        (["params", "--d", "1.5"], "'1.5'"),
        (["params", "--d", "-768"], "-768"),
        (["params", "--d", "0"], "0"),
        (["params", "--d", str(10**30)], str(10**30)),
        (["params", "--d", "9" * 5000], "--d"),
        (["params", "--d", "770", "--heads", "12"], "n_heads (12) does not divide d_model (770)"),
        (["params", "--d", "\u0667\u0666\u0668"], "--d takes a whole number"),  # 768 in Arabic digits
        (["params", "--d", "1_0"], "--d takes a whole number, not '1_0'"),
        (["params", "--d", ""], "--d takes a whole number, not ''"),
        (["params", "--expect", "1,2,4439808"], "--expect takes a whole number, not '1,2,4439808'"),
        (["params", "--d", "1000000000"], "the d_ff that follows from --d 1000000000 is 4000000000"),
        (["params", "--eps", "x"], "'x'"),
        (["params", "--eps", "1_0"], "--eps takes a number, not '1_0'"),
        (["params", "--eps", "inf"], "must be at least 0 and below 1,000,000, not inf"),
        (["params", "--eps", "nan"], "must be at least 0 and below 1,000,000, not nan"),
        (["params", "--dropout", "nan"], "must be at least 0 and below 1, not nan"),
        (["params", "--d", "768", "--d-model", "512"], "--d/--d-model is given 2 times; give it once"),
        (["params", "--tied", "--untied"], "--tied/--untied is given 2 times; give it once"),
        (["flops", "--sweep", "1:2", "--n", "3", "--sweep", "3:4"], "--sweep is given 2 times; give it once"),
        (["params", "--preset", "gpt9"], "unknown preset 'gpt9'"),
        (["params", "--positions", "relativ"], "unknown positions 'relativ'; did you mean relative?"),
        (["params", "--preset", "[bold]"], "unknown preset '[bold]'"),
        (["params", "--preset", "a\nb\x1b[31m"], "unknown preset 'a\\nb\\x1b[31m'"),
        (["flops", "--n", "-5"], "-5"),
    ],
)
def test_bad_input_is_one_line_that_quotes_it_and_exit_code_2(tfinspect: Program, words: list[str], said: str) -> None:
    ended = tfinspect(*words)
    assert (ended.code, ended.out) == (2, "")
    assert one_error(ended.err)
    assert said in ended.err


def test_numbers_are_read_as_tfinspect_prints_them(tfinspect: Program) -> None:
    plain = tfinspect("params", "--no-check", "--ctx", "2048", "--expect", "125226240")  # Brown et al. 2020, 125M
    assert plain.code == 0
    assert tfinspect("params", "--no-check", "--ctx", "2,048", "--expect", "125,226,240") == plain
    assert tfinspect("params", "--no-check", "--ctx", " 2_048", "--expect", "+125226240") == plain


def test_what_cannot_contradict_itself_may_be_given_twice(tfinspect: Program) -> None:
    words = ("tokenize", "--json", "--file", os.devnull, "--file", os.devnull)
    assert len(json.loads(tfinspect(*words, "--json").out)["texts"]) == 2


@pytest.mark.parametrize("text", ["-5", "--helpful", "-x y"])
def test_text_that_looks_like_an_option_is_told_the_way_in(tfinspect: Program, text: str) -> None:
    ended = tfinspect("tokenize", text)
    assert ended.code == 2
    assert one_error(ended.err)
    assert "standard input or after --: tfinspect tokenize -- " in ended.err


def test_text_after_a_double_dash_is_text(tfinspect: Program) -> None:
    # ids of "-5" and "--help" by tiktoken's gpt2 encoding
    assert tfinspect("tokenize", "--ids", "--", "-5").out == "12 20\n"
    assert tfinspect("tokenize", "--ids", "-", stdin=b"-5").out == "12 20\n"
    assert tfinspect("tokenize", "--ids", "--", "--help").out == "438 16794\n"


@posix
def test_bytes_outside_utf8_in_an_error_are_escapes(tfinspect: Program) -> None:
    ended = tfinspect("params", "--preset", b"caf\xe9")
    assert ended.code == 2
    assert one_error(ended.err)
    assert "unknown preset 'caf\\udce9'" in ended.err


def test_an_error_leaves_standard_output_empty_under_json(tfinspect: Program) -> None:
    ended = tfinspect("params", "--json", "--preset", "gpt9")
    assert (ended.code, ended.out) == (2, "")


def test_a_failed_check_exits_with_1(tfinspect: Program) -> None:
    ended = tfinspect("params", "--no-check", "--expect", "1")
    assert ended.code == 1
    assert one_error(ended.err)
    assert "124,439,808" in ended.out


@posix
def test_ctrl_c_is_silent() -> None:
    handled = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background begins without it
    ended = run_with(f"{handled}; os.kill(os.getpid(), signal.SIGINT)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_ctrl_c_is_silent_while_the_program_is_imported(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    words = [sys.executable, "-m", "tfinspect", "params"]
    env = environment({"PYTHONPATH": str(tmp_path)})
    ended = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_ctrl_c_is_silent_while_output_is_written() -> None:
    interrupted = "class Slow(type(sys.stdout)):\n        def flush(self): raise KeyboardInterrupt"
    ended = run_with(f"{interrupted}\n    sys.stdout = Slow(sys.stdout.buffer)")
    assert (ended.returncode, ended.stderr) == (130, "")


@posix
def test_a_working_directory_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    gone = f"cd {tmp_path} && rmdir {tmp_path} && "
    for words in ("params --preset tiny-568", "trace --preset tiny-568 --ids 1"):
        ended = subprocess.run(
            ["sh", "-c", f"{gone}exec {sys.executable} -m tfinspect {words}"],
            capture_output=True, text=True, env=environment({}), check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "agree  " in ended.stdout
        tmp_path.mkdir()


def test_a_defect_is_named_as_one() -> None:
    ended = run_with("raise ZeroDivisionError('of a kind')")
    assert ended.returncode == 70
    assert one_error(ended.stderr)
    assert "internal: ZeroDivisionError: of a kind; please report it" in ended.stderr


@pytest.mark.parametrize(
    ("name", "words"), [("torch", "params"), ("torch", "trace --ids 1"), ("tiktoken", "tokenize a"), ("rich", "flops")]
)
def test_a_dependency_that_is_missing_is_named(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})")
    ended = subprocess.run(
        [sys.executable, "-m", "tfinspect", *words.split()],
        capture_output=True, text=True, env=environment({"PYTHONPATH": str(tmp_path)}), check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == f"error: {name} is not installed; python -m pip install {name}\n"


def test_too_little_memory_is_said_plainly() -> None:
    ended = run_with("bytearray(2**62)")
    assert ended.returncode == 2
    assert one_error(ended.stderr)
    assert "out of memory" in ended.stderr


def test_a_program_that_loaded_torch_ends_with_its_exit_code_and_all_its_output() -> None:
    ended = run_with("import torch, tfinspect; sys.stdout.write('x' * 100_000); raise tfinspect.CheckFailed('a fact')")
    assert (ended.returncode, len(ended.stdout), ended.stderr) == (1, 100_000, "error: a fact\n")


@posix
def test_output_that_fails_after_an_error_is_the_last_word() -> None:
    """What waits in the buffer when a command fails is written, or said to be lost, and never ignored."""
    ended = run_with("sys.stdout.write('x'); os.close(1); raise KeyboardInterrupt")
    assert ended.returncode == 2
    assert one_error(ended.stderr)
    assert os.strerror(errno.EBADF) in ended.stderr


# Pipes


@posix
@pytest.mark.parametrize("words", [LONG, (*LONG, "--json"), ("--help",), ("flops", "--json")])
def test_a_reader_that_leaves_is_no_error(words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        command(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment({})
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [LONG, ("params", "--no-check"), ("params", "--json"), ("--version",)])
def test_a_full_disk_is_an_error(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        ended = subprocess.run(
            command(words), stdout=full, stderr=subprocess.PIPE, text=True, env=environment({}), check=False
        )
    assert ended.returncode == 2
    assert one_error(ended.stderr)
    assert os.strerror(errno.ENOSPC) in ended.stderr


@posix
@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_output_that_the_system_cuts_short_is_an_error(env: dict[str, str], tmp_path: Path) -> None:
    # ulimit -f counts in blocks of 512 bytes
    words = ["sh", "-c", 'ulimit -f 64 && exec "$@" > "$0"', str(tmp_path / "out"), *command(LONG)]
    ended = subprocess.run(words, stderr=subprocess.PIPE, text=True, env=environment(env), check=False)
    assert ended.returncode == 2
    assert one_error(ended.stderr)
    assert os.strerror(errno.EFBIG) in ended.stderr


# Encodings


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "shift_jis"])
@pytest.mark.parametrize("words", [("params", "--no-check"), ("flops", "--sweep", "128:1024", "--no-check")])
def test_reports_are_whole_in_any_encoding(tfinspect: Program, words: tuple[str, ...], encoding: str) -> None:
    process = subprocess.run(
        command(words), capture_output=True, env=environment({"PYTHONIOENCODING": encoding}), check=True
    )
    assert process.stderr == b""
    text = process.stdout.decode(encoding)
    assert len(text.splitlines()) >= len(tfinspect(*words).out.splitlines())
    assert max(map(cell_len, text.splitlines())) <= 80


@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252"}])
def test_tokens_of_any_script_show_in_ascii(tfinspect: Program, env: dict[str, str]) -> None:
    ended = tfinspect("tokenize", "蒔絵師が → é", env=env)
    assert (ended.code, ended.err) == (0, "")
    assert "\\u8494" in ended.out


@posix
def test_the_c_locale_is_no_obstacle(tfinspect: Program) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (("tokenize", "蒔"), ("params", "--no-check"), ("--help",), ("trace", "--help")):
        ended = tfinspect(*words, env=env)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.isascii()


# Colours


def test_a_pipe_and_the_switches_decide_about_escape_codes(tfinspect: Program) -> None:
    words = ("params", "--no-check")
    switches: list[tuple[dict[str, str], bool]] = [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False),
    ]
    assert [("\x1b" in tfinspect(*words, env=env).out) for env, _ in switches] == [styled for _, styled in switches]


def on_a_terminal(words: tuple[str, ...], env: dict[str, str]) -> str:
    """What the program writes to a terminal, standard error included."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(words), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(env), close_fds=True
    )  # fmt: skip
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65_536):
            written += part
    except OSError as error:  # Linux ends a terminal without writers so
        if error.errno != errno.EIO:
            raise
    os.close(ours)
    process.wait()
    return written.decode().replace("\r\n", "\n")


@posix
def test_a_terminal_gets_styles_unless_it_cannot_show_them() -> None:
    words = ("params", "--no-check")
    assert "\x1b[1m" in on_a_terminal(words, {})
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(words, env)


@posix
def test_a_terminal_gets_errors_wrapped_to_its_width() -> None:
    text = on_a_terminal(("params", "--preset", "gpt9"), {"COLUMNS": "40"})
    assert text.startswith("error: unknown preset 'gpt9'; did you\n       mean ")
    assert max(map(len, text.splitlines())) <= 40


# JSON


@pytest.mark.parametrize("words", [("params", "--no-check"), ("flops", "--no-check"), ("tokenize", "x" * 200)])
def test_json_is_pure_at_any_width_and_in_any_colours(tfinspect: Program, words: tuple[str, ...]) -> None:
    env = {"COLUMNS": "20", "FORCE_COLOR": "1"}
    narrow = tfinspect(*words, "--json", env=env)
    assert (narrow.code, narrow.err) == (0, "")
    assert narrow.out == tfinspect(*words, "--json").out
    document = json.loads(narrow.out)
    assert document["schema"] == f"tfinspect.{'tokens' if words[0] == 'tokenize' else words[0]}/1"
    assert isinstance(document["agreements"], list)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("words", [("params", "--no-check"), ("flops", "--no-check"), ("tokenize", "你好 é :smile:")])
def test_reports_fit_the_page(tfinspect: Program, words: tuple[str, ...], width: int) -> None:
    ended = tfinspect(*words, env={"COLUMNS": str(width)})
    assert max(map(cell_len, ended.out.splitlines())) <= width
