"""Answers by fold: the same sums, once for each fold of a site's rows.

An additive question's answer is a sum over rows. So the answer for a fold is the sum of the answers for its parts.
One pass over the rows gives all folds: each block of rows is split by fold while it is in memory.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from zlib import crc32

import numpy as np

from fedspca.linalg.operators import DeflatedRows, Frame
from fedspca.linalg.row_blocks import COPY_BYTES, AnyRows, Labels, RemoteRows, Rows, Sums, forget_mapped
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import DEAL, Query, Question, SiteData, Terms

MINE = 0  # the part of the rows that is the sample


def deal(site: str, rows: int, folds: int, seed: int, least: int = 1) -> Labels:
    """Return the fold of each of a site's rows: at random, in folds of nearly equal size.

    The site's name is part of the seed, so that each site draws its own folds, the same each time. A site that has
    fewer than ``least`` rows for each fold keeps all its rows in one fold, which is drawn at random.
    """
    rng = np.random.default_rng([seed, crc32(site.encode())])
    first = int(rng.integers(folds))  # otherwise the first folds would be the larger ones at every site
    if rows < folds * least:
        return np.full(rows, first, dtype=np.int16)
    labels = ((first + np.arange(rows)) % folds).astype(np.int16)
    rng.shuffle(labels)
    return labels


def answer_of_sample(question: Question, data: SiteData, query: Query) -> Terms:
    """Answer a question about one of so many parts of the rows.

    Parameters
    ----------
    question : Question
        An additive one.
    data : SiteData
        The rows.
    query : Query
        The question as it is asked, with the number of parts and the seed that assigns rows to parts.
    """
    if not data.preparation.plain:
        told = "rows with covariates, weights or a mean of their own have no sample."
        raise InvalidQuery(data.site, query.name, told)
    labels = deal(data.site, data.rows.shape[0], query.sample, int(query.scalars[DEAL]))

    def of(rows: Rows, its: Labels) -> Sums:
        part = SiteData(data.site, rows[np.flatnonzero(its == MINE)], missing=data.missing, few=data.few)
        return tuple(question.answer(part, None, query.as_a_whole())[1].values())

    sums = _labelled_total(data.rows, of, labels)
    return dict(zip(question.terms, sums, strict=True))


def answer_by_fold(question: Question, data: SiteData, query: Query, least: int) -> Terms:
    """Answer a question once for each fold: the terms have the folds as their first axis.

    Parameters
    ----------
    question : Question
        An additive one.
    data : SiteData
        The rows.
    query : Query
        The question as it is asked, with the number of folds and the seed that assigns rows to folds.
    least : int
        How many rows a fold must hold at least.
    """
    if not data.preparation.plain:
        raise InvalidQuery(data.site, query.name, "rows with covariates, weights or a mean of their own have no folds.")
    n, d = data.rows.shape
    labels = deal(data.site, n, query.folds, int(query.scalars[DEAL]), least)
    shapes = question.shapes(d, query)
    # a fold's part of a block is copied: the copy is no larger than the answer, or than a fixed size
    stretch = max(COPY_BYTES // (8 * d), sum(prod(shape) for shape in shapes.values()) // d, 1)
    of = partial(_sums_of, question, query.as_a_whole(), data.site, data.missing, query.folds, stretch)
    sums = _labelled_total(data.rows, of, labels)
    precision = str(query.scalars.get("precision", "float64"))
    return {name: total.astype(precision, copy=False) for name, total in zip(shapes, sums, strict=True)}


def _labelled_total(rows: AnyRows, of: Callable[[Rows, Labels], Sums], labels: Labels) -> Sums:
    """Σ of(part, labels of its rows), wherever the rows are."""
    return rows.labelled_total(of, labels) if isinstance(rows, RemoteRows) else of(rows, labels)


def _sums_of(
    question: Question, query: Query, site: str, missing: bool, folds: int, stretch: int, rows: Rows, labels: Labels
) -> Sums:
    """Return each term by fold, for rows in this process."""
    n, d = rows.shape
    sums = tuple(np.zeros((folds, *shape)) for shape in question.shapes(d, query).values())
    for start in range(0, n, stretch):
        part, its = rows[start : start + stretch], labels[start : start + stretch]
        for fold in np.unique(its):
            _, terms = question.answer(_Part(site, part[its == fold], missing=missing), None, query)
            for total, name in zip(sums, question.terms, strict=True):
                total[fold] += terms[name]
        forget_mapped(rows)
    return sums


class _Part(SiteData):
    """Some rows of a fold. They are multiplied only once, so forming their Gram matrix first would not save time."""

    def seen_in(self, frame: Frame, expected: int | None = None) -> DeflatedRows:
        return super().seen_in(frame, expected=0)
