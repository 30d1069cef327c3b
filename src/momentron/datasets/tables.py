"""Small published tables, bundled as CSV: what statisticians know separation from."""

from pathlib import Path

from momentron.errors import InputError, short

TABLES = {  # name: what it is, and where it was published
    "alligators": "food of 219 alligators in four lakes, counts; Agresti (2002), Categorical Data "
    "Analysis, Table 7.1",
    "challenger": "O-ring distress on 23 shuttle flights; Dalal, Fowlkes, Hoadley (1989), JASA 84",
    "endometrial": "histology of 79 endometrial cancers; Heinze, Schemper (2002), Statistics in "
    "Medicine 21",
    "hepatitis": "post-transfusion hepatitis in three Canadian cities, counts; Bull, Mak, "
    "Greenwood (2002), Computational Statistics & Data Analysis 39",
    "kyphosis": "81 children after spinal surgery; Chambers, Hastie (1992), Statistical Models "
    "in S",
    "lizards": "perches of two Jamaican lizards, counts; Schoener (1970), Ecology 51; McCullagh, "
    "Nelder (1989), Generalized Linear Models",
    "nodal": "nodal involvement in 53 prostate cancers; Brown (1980), in Biostatistics Casebook",
    "spector": "a teaching method for 32 students; Spector, Mazzeo (1980), Journal of Economic "
    "Education 11",
    "titanic": "2,201 people aboard by class, sex and age, counts; Dawson (1995), Journal of "
    "Statistics Education 3",
    "trial": "a fungal infection treated in five centers, counts; Agresti (2002), Categorical Data "
    "Analysis",
    "vasoconstriction": "39 reflexes in the skin of the digits; Finney (1947), Biometrika 34",
}


def table_path(name: str) -> Path:
    """The CSV file of a bundled table.

    >>> table_path("endometrial").name
    'endometrial.csv'
    """
    if name not in TABLES:
        raise InputError(f"there is no table {short(name)}; choose from: {', '.join(TABLES)}")
    return Path(__file__).parent / "published" / f"{name}.csv"
