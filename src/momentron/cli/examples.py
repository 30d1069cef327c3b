"""Examples that the help of each command ends with."""

EXAMPLES = {
    "fit": (
        "momentron fit patients.csv --target outcome",
        "momentron fit digits --kernel rbf -C 10 --save model.npz",
        "momentron fit large.npy --out-of-core --memory 2GB --checkpoint state",
    ),
    "predict": (
        "momentron predict model.npz new.csv -o labels.csv",
        "momentron predict model.npz new.csv --decision",
    ),
    "check": (
        "momentron check patients.csv --target outcome --features",
        "momentron check patients.csv --target outcome --proof proof.json",
    ),
    "verify": ("momentron verify proof.json patients.csv --target outcome",),
    "race": (
        "momentron race digits --passes 500 --plot race.png",
        "momentron race iris --method momentum --method batch-perceptron",
    ),
    "report": (
        "momentron report patients.csv --target outcome -o report.html",
        "momentron report digits --classes 3 8",
    ),
    "info": ("momentron info --json",),
}
OVERVIEW = (EXAMPLES["fit"][0], EXAMPLES["check"][1], EXAMPLES["report"][0])


def epilog(lines: tuple[str, ...]) -> str:
    """The end of a help text; the mark keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
