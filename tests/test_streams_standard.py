"""Standard output and error that are closed, broken, or lack our characters: every command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import momentron
from momentron.cli import main

ODD = "a,b,label\n1,2,é∞\n3,4,y\n5,9,é∞\n"
STREAMS = ["closed", "broken", "ascii", "latin-1", "cp1252"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table with a label that no narrow encoding has, its model and its proof."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.csv").write_text(ODD, encoding="utf-8")
    for words in (["fit", "odd.csv", "--save", "model"], ["check", "odd.csv", "--proof", "proof"]):
        with pytest.raises(SystemExit):
            main([words[0], *(str(folder / w) if w[0] != "-" else w for w in words[1:])])
    return folder


def words_of(command, files, out):
    """A command that writes a file, if it can write one."""
    data = str(files / "odd.csv")
    return {
        "fit": ["fit", data, "--save", str(out)],
        "predict": ["predict", str(files / "model"), data],
        "check": ["check", data, "--proof", str(out)],
        "verify": ["verify", str(files / "proof"), data],
        "race": ["race", data, "--passes", "2", "--method", "momentum"],
        "report": ["report", data, "-o", str(out)],
        "info": ["info"],
    }[command]


def stream_of(kind):
    """(a stream, a function that says what was written to it)."""
    if kind == "closed":
        return None, lambda: ""
    if kind == "broken":
        read, write = os.pipe()
        os.close(read)
        return os.fdopen(write, "w", encoding="utf-8"), lambda: ""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=kind)
    return stream, lambda: written.getvalue().decode(kind)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("command", ["fit", "predict", "check", "verify", "race", "report", "info"])
def test_every_command_answers_on_every_stream(files, tmp_path, monkeypatch, command, kind):
    out = tmp_path / "out"
    stdout, printed = stream_of(kind)
    stderr, complained = stream_of(kind)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(SystemExit) as ended:
        main(words_of(command, files, out))
    is_lost = command == "predict" and kind == "closed"
    assert (ended.value.code or 0) == (2 if is_lost else 0)
    assert sys.stdout is stdout and sys.stderr is stderr
    if command in ("fit", "check", "report"):
        assert out.stat().st_size > 100
    if kind not in ("closed", "broken"):
        text = printed()
        assert text and "?" not in text
        if command in ("fit", "check"):
            assert f": 3 {'x' if kind == 'ascii' else '×'} 2, " in text
            assert "best margin     in [0.37210420" in text
        if command == "verify":
            assert "b is +inf; that of a is -inf" in text
        if command == "predict":
            assert text.splitlines()[1].endswith("\\u221e") or text.splitlines()[1].endswith("inf")
            assert f"warning: the output is in {kind}" in complained()
    elif stdout is not None:
        stdout.close()  # nothing is left in its buffer that could break
        stderr.close()


@pytest.mark.parametrize("kind", STREAMS)
def test_a_refusal_ends_with_2_on_every_stream(tmp_path, monkeypatch, kind):
    path = tmp_path / "∞é.csv"
    path.write_text("a,b,label\n1,−2,x\n3,4,y\n", encoding="utf-8")
    stdout, printed = stream_of("ascii")
    stderr, complained = stream_of(kind)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path)])
    assert ended.value.code == 2
    assert printed() == ""  # a closed standard error is not replaced by standard output
    if kind not in ("closed", "broken"):
        assert "line 2, column 'b'" in complained()
    elif stderr is not None:
        stderr.close()


def test_a_full_disk_behind_standard_output_is_told(files, monkeypatch, capsys, tmp_path):
    device, out = Path("/dev/full"), tmp_path / "proof"
    if not device.exists():
        pytest.skip(f"no {device} here")
    with device.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main(["check", str(files / "odd.csv"), "--proof", str(out)])
    assert ended.value.code == 2
    assert "No space left" in capsys.readouterr().err
    assert out.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
def test_pipes_and_closed_streams_of_a_shell(files, tmp_path):
    """One real shell: a reader that leaves, and descriptors that are closed."""
    script = f"""
    cd {tmp_path}
    run() {{ "{sys.executable}" -m momentron "$@"; }}
    {{ run check odd.csv --proof p.json; echo "code $?" >&2; }} | true
    run predict {files}/model odd.csv --out q.csv 0<&- 1>&- 2>&-
    echo "code $?" >&2
    """
    (tmp_path / "odd.csv").write_text(ODD, encoding="utf-8")
    narrow = {"PYTHONPATH": str(Path(momentron.__file__).parents[1]), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        ["sh", "-c", script], env=os.environ | narrow, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == "code 0\ncode 0\n"
    assert (tmp_path / "p.json").stat().st_size > 100
    assert (tmp_path / "q.csv").read_text(encoding="utf-8") == "label\né∞\ny\né∞\n"
