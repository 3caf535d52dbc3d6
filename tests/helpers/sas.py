"""Files of SAS for tests, by the writer of ReadStat, which pyreadstat brings along and does not show in Python."""

import ctypes
from pathlib import Path

TEXT, NUMBER = 0, 5
Sent = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def _library():
    import pyreadstat._readstat_writer as compiled

    library = ctypes.CDLL(compiled.__file__)
    for name in ("writer_init", "add_variable", "add_label_set"):
        getattr(library, f"readstat_{name}").restype = ctypes.c_void_p
    return library


class _Writer:
    """One file, written by calls of ReadStat; a call that fails says its number."""

    def __init__(self, path):
        self._library, self._path = _library(), path
        self._writer = ctypes.c_void_p(self._library.readstat_writer_init())

    def __enter__(self):
        self._file = self._path.open("wb")
        self._sent = Sent(lambda data, n, _: self._file.write(ctypes.string_at(data, n)))
        self.call("set_data_writer", self._sent)
        return self

    def __exit__(self, *_):
        self._library.readstat_writer_free(self._writer)
        self._file.close()

    def call(self, name, *arguments):
        error = getattr(self._library, f"readstat_{name}")(self._writer, *arguments)
        assert error == 0, f"readstat_{name}: error {error}"

    def add(self, name, *arguments):
        return ctypes.c_void_p(getattr(self._library, f"readstat_{name}")(self._writer, *arguments))

    def about(self, name, thing, *arguments):
        function = getattr(self._library, f"readstat_{name}")
        function.restype = None
        function(thing, *arguments)


def write_sas(table, path, *, labels=None, formats=None):
    """Write a table as ``.sas7bdat``; columns may have labels, and formats such as ``DATE9`` or one of a catalog.

    None and NaN are missing values, and a value such as ``.A`` a special missing value of SAS.
    """
    columns = {name: list(table[name]) for name in table.columns}
    with _Writer(Path(path)) as writer:
        made = {name: _variable(writer, name, values) for name, values in columns.items()}
        for name, label in (labels or {}).items():
            writer.about("variable_set_label", made[name], label.encode())
        for name, form in (formats or {}).items():
            writer.about("variable_set_format", made[name], form.encode())
        writer.call("begin_writing_sas7bdat", None, ctypes.c_long(len(table)))
        for i in range(len(table)):
            writer.call("begin_row")
            for name, values in columns.items():
                _insert(writer, made[name], values[i], text=_holds_text(values))
            writer.call("end_row")
        writer.call("end_writing")


def _holds_text(values):
    return any(isinstance(value, str) and not _is_special(value) for value in values)


def _is_special(value):
    return isinstance(value, str) and len(value) == 2 and value[0] == "."


def _variable(writer, name, values):
    text = _holds_text(values)
    width = max((len(str(value).encode()) for value in values), default=1) if text else 0
    return writer.add("add_variable", name.encode(), TEXT if text else NUMBER, ctypes.c_size_t(width))


def _insert(writer, variable, value, *, text):
    if _is_special(value):
        writer.call("insert_tagged_missing_value", variable, ctypes.c_char(value[1].encode()))
    elif value is None or value != value:  # NaN
        if text:
            writer.call("insert_string_value", variable, b"")
        else:
            writer.call("insert_missing_value", variable)
    elif text:
        writer.call("insert_string_value", variable, value.encode())
    else:
        writer.call("insert_double_value", variable, ctypes.c_double(value))


def write_catalog(path, labels):
    """Write the labels of values, by the name of their format, as a catalog of SAS, ``.sas7bcat``."""
    with _Writer(Path(path)) as writer:
        for form, of_values in labels.items():
            made = writer.add("add_label_set", NUMBER, form.encode())
            for value, label in of_values.items():
                writer.about("label_double_value", made, ctypes.c_double(value), label.encode())
        writer.call("begin_writing_sas7bcat", None)
        writer.call("end_writing")
