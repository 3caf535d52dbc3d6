"""Charts as SVG. No script draws them, so they print, scale, and show even where scripts are switched off."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fedspca.report.markup import Markup, join, tag

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 440.0, 62.0, 12.0, 14.0, 40.0
ROW = 24.0
LONGEST = 26
NAMED = 16  # arrows of a biplot that are labelled; every arrow shows its name on hover


class Bar(NamedTuple):
    """One bar: its label, its length, and what is said when it is pointed at."""

    label: str
    value: float
    told: str


class Line(NamedTuple):
    """A line through points: its name, and x, y and a remark for each point."""

    name: str
    points: Sequence[tuple[float, float, str]]


def chart(alternative: str, height: float, *content: Markup) -> Markup:
    """Wrap a drawing so that those who cannot see it are told what it shows."""
    return tag(
        "svg",
        tag("title", alternative),
        *content,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        class_="chart",
        aria_label=alternative,
    )


def bars(alternative: str, items: Sequence[Bar], *, signed: bool = True) -> Markup:
    """Horizontal bars about zero, whose sign shows in direction, colour and number; or shares, which have none."""
    label = 190.0
    room = WIDTH - label - 62
    below = max((-item.value for item in items if signed), default=0.0)
    below, above = max(below, 0.0), max((item.value for item in items), default=0.0)
    unit = room / ((below + max(above, 0.0)) or 1.0)
    zero = label + 4 + below * unit
    texts = [f"{item.value:+.3f}" if signed else f"{item.value:.1%}" for item in items]
    drawn = [_bar(item, texts[k], TOP + ROW * k, zero, unit, label) for k, item in enumerate(items)]
    height = TOP + ROW * len(items) + 6
    axis = tag("line", x1=zero, x2=zero, y1=TOP - 6, y2=height - 4, class_="axis")
    return chart(alternative, height, *drawn, axis)


def _bar(item: Bar, text: str, top: float, zero: float, unit: float, label: float) -> Markup:
    length = max(abs(item.value) * unit, 1.0)
    left = zero if item.value >= 0 else zero - length
    return tag(
        "g",
        tag("text", short(item.label), x=label - 4, y=top + 14, class_="label end"),
        tag(
            "rect", x=left, y=top + 2, width=length, height=ROW - 7, rx=2, class_="minus" if item.value < 0 else "plus"
        ),
        tag("text", text, x=zero + length + 5 if item.value >= 0 else zero + 5, y=top + 14, class_="value"),
        class_="tip",
        data_tip=item.told,
    )


def pairs(alternative: str, names: tuple[str, str], groups: Sequence[tuple[str, float, float]]) -> Markup:
    """Draw two bars a group, as shares of one, with a legend."""
    highest = max((max(a, b) for _, a, b in groups), default=1.0) or 1.0
    height, floor = 230.0, 190.0
    scale = (floor - TOP) / (highest * 1.08)
    step = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    wide = min(step * 0.36, 44.0)
    drawn = [_grid(lambda v: floor - v * scale, ticks(0.0, highest), percents(highest))]
    for k, (label, ours, theirs) in enumerate(groups):
        middle = LEFT + step * (k + 0.5)
        for kind, value, left, name in (("plus", ours, middle - wide, names[0]), ("other", theirs, middle, names[1])):
            box = {"x": left, "y": floor - value * scale, "width": wide, "height": max(value * scale, 0.5)}
            told = f"{name}, {label}: {value:.2%}"
            drawn.append(tag("g", tag("rect", rx=2, class_=kind, **box), class_="tip", data_tip=told))
        drawn.append(tag("text", label, x=middle, y=floor + 18, class_="label middle"))
    return join(chart(alternative, height, *drawn), legend([("plus", names[0]), ("other", names[1])]))


def lines(
    alternative: str,
    series: Sequence[Line],
    axes: tuple[str, str],
    *,
    log: bool = False,
    level: tuple[str, float] | None = None,
    mark: tuple[float, float, str] | None = None,
    percent: bool = False,
) -> Markup:
    """Draw lines over a common axis, optionally on a log scale, with a level and a marked point."""
    points = [point for line in series for point in line.points if not log or point[1] > 0]
    xs, ys = [p[0] for p in points], [p[1] for p in points] + ([level[1]] if level else [])
    see = math.log10 if log else float
    low, high = min(map(see, ys)), max(map(see, ys))
    low, high = (min(low, 0.0), high * 1.05) if percent else (low, high)
    height, floor = 250.0, 250.0 - BOTTOM
    fit_x = _fitted(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    fit_y = _fitted(low, high, floor, TOP)

    def write(v: float) -> str:
        return f"1e{v:.0f}" if log else percents(high)(v) if percent else f"{v:.4g}"

    drawn = [_grid(fit_y, ticks(low, high, whole=log), write), *_x_axis(fit_x, min(xs), max(xs), floor, axes)]
    if level is not None:
        y = fit_y(see(level[1]))
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="level"))
        drawn.append(tag("text", level[0], x=WIDTH - RIGHT, y=y - 4, class_="value end"))
    for number, line in enumerate(series):
        drawn += _line(line, number, lambda p: (fit_x(p[0]), fit_y(see(p[1]))), log=log)
    if mark is not None:
        at = (fit_x(mark[0]), fit_y(see(mark[1])))
        drawn.append(tag("circle", cx=at[0], cy=at[1], r=8, class_="mark tip", data_tip=mark[2]))
    keys = [(f"line{number}", line.name) for number, line in enumerate(series)] if len(series) > 1 else []
    return join(chart(alternative, height, *drawn), legend(keys) if keys else None)


def _line(
    line: Line, number: int, at: Callable[[tuple[float, float, str]], tuple[float, float]], *, log: bool
) -> list[Markup]:
    shown = [point for point in line.points if not log or point[1] > 0]
    places = [at(point) for point in shown]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    every = max(1, len(shown) // 60)  # hundreds of rounds: a dot for each would hide the line
    dots = [
        tag("circle", cx=x, cy=y, r=3.2, class_=f"dot line{number} tip", data_tip=point[2])
        for k, (point, (x, y)) in enumerate(zip(shown, places, strict=True))
        if k % every == 0 or k == len(shown) - 1
    ]
    return [tag("polyline", points=way, class_=f"line line{number}"), *dots]


def _x_axis(
    fit_x: Callable[[float], float], low: float, high: float, floor: float, axes: tuple[str, str]
) -> list[Markup]:
    marks = [
        tag("text", f"{v:g}", x=fit_x(v), y=floor + 16, class_="value middle")
        for v in ticks(low, high, whole=True)
        if low <= v <= high
    ]
    names = [
        tag("text", axes[0], x=(LEFT + WIDTH - RIGHT) / 2, y=floor + 34, class_="value middle"),
        tag("text", axes[1], x=4, y=TOP - 3, class_="value"),
    ]
    return [*marks, *names]


def heat(alternative: str, values: Sequence[Sequence[float]], names: Sequence[str]) -> Markup:
    """Draw a square of numbers between −1 and 1; each cell says its number, so that colour is not needed."""
    side = min(64.0, (WIDTH - 60) / max(len(names), 1))
    drawn = []
    for i, row in enumerate(values):
        drawn.append(tag("text", names[i], x=40, y=30 + side * (i + 0.5), class_="label end"))
        drawn.append(tag("text", names[i], x=48 + side * (i + 0.5), y=14, class_="label middle"))
        for j, value in enumerate(row):
            box = {"x": 48 + side * j, "y": 22 + side * i, "width": side - 2, "height": side - 2}
            cell = tag(
                "rect", rx=3, class_="minus" if value < 0 else "plus", fill_opacity=0.08 + 0.6 * abs(value), **box
            )
            told = f"{names[i]} and {names[j]}: {value:+.3f}"
            text = tag(
                "text", f"{value:.2f}", x=box["x"] + side / 2 - 1, y=box["y"] + side / 2 + 3, class_="label middle"
            )
            drawn.append(tag("g", cell, text if side >= 30 else None, class_="tip", data_tip=told))
    return chart(alternative, 30 + side * len(names), *drawn)


def plane(
    alternative: str,
    arrows: Sequence[tuple[str, float, float]],
    dots: Sequence[tuple[float, float, str]],
    axes: tuple[str, str],
) -> Markup:
    """Draw a biplot: features as arrows, rows, where they may be shown, as dots; each to its own scale."""
    reach = max((math.hypot(x, y) for _, x, y in arrows), default=1.0) or 1.0
    far = max((max(abs(x), abs(y)) for x, y, _ in dots), default=1.0) or 1.0
    ends = [(x / reach, y / reach) for _, x, y in arrows]
    places = [(x / far, y / far) for x, y, _ in dots]
    xs, ys = ([0.0, *(place[k] for place in [*ends, *places])] for k in (0, 1))
    named = 145.0  # room for names
    left = named if any(x < 0 for x, _ in ends[:NAMED]) else 90.0
    unit = (WIDTH - left - named) / ((max(xs) - min(xs)) or 1.0)
    x0, y0 = left - min(xs) * unit, 36 + max(ys) * unit
    height = y0 - min(ys) * unit + 30

    def at(place: tuple[float, float]) -> tuple[float, float]:
        return x0 + place[0] * unit, y0 - place[1] * unit

    drawn = [
        tag("line", x1=10, x2=WIDTH - 10, y1=y0, y2=y0, class_="grid"),
        tag("line", x1=x0, x2=x0, y1=10, y2=height - 10, class_="grid"),
        tag("text", f"{axes[0]} →", x=10, y=y0 - 6, class_="value"),
        tag("text", f"↑ {axes[1]}", x=x0 - 8, y=16, class_="value end" if x0 > 130 else "value"),
    ]
    for place, (_, _, told) in zip(places, dots, strict=True):
        drawn.append(tag("circle", cx=at(place)[0], cy=at(place)[1], r=2.2, class_="point tip", data_tip=told))
    tips = [at(end) for end in ends]
    labels = _apart([y for _, y in tips[:NAMED]], [x < x0 - 1 for x, _ in tips[:NAMED]])
    return chart(
        alternative, max([height, *(y + 20 for y in labels)]), *drawn, *_arrows(arrows, tips, labels, (x0, y0))
    )


def _arrows(
    arrows: Sequence[tuple[str, float, float]],
    ends: Sequence[tuple[float, float]],
    heights: Sequence[float],
    origin: tuple[float, float],
) -> list[Markup]:
    drawn = []
    for k, ((name, x, y), end) in enumerate(zip(arrows, ends, strict=True)):
        parts = [
            tag("line", x1=origin[0], y1=origin[1], x2=end[0], y2=end[1], class_="arrow"),
            tag("circle", cx=end[0], cy=end[1], r=3.5, class_="plus"),
        ]
        if k < NAMED:
            side = -1 if end[0] < origin[0] - 1 else 1
            kind = "label end" if side < 0 else "label"
            parts.append(tag("text", short(name, 20), x=end[0] + 8 * side, y=heights[k] + 4, class_=kind))
        drawn.append(tag("g", *parts, class_="tip", data_tip=f"{name}: {x:+.3f}, {y:+.3f}"))
    return drawn


def _apart(heights: Sequence[float], left: Sequence[bool], room: float = 14.0) -> list[float]:
    """Move labels on the same side apart, so that none lies on another, and keep their order."""
    placed = list(heights)
    for side in (False, True):
        mine = sorted((k for k in range(len(placed)) if left[k] is side), key=lambda k: heights[k])
        for above, below in pairwise(mine):
            placed[below] = max(placed[below], placed[above] + room)
        excess = sum(placed[k] - heights[k] for k in mine) / max(len(mine), 1)
        for k in mine:  # shared out, so that a crowd stays about where it belongs
            placed[k] -= excess
    return placed


def legend(keys: Sequence[tuple[str, str]]) -> Markup:
    """Say which colour is what."""
    return tag("p", *(tag("span", tag("span", class_=f"key {kind}"), name) for kind, name in keys), class_="legend")


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Return round numbers between two others."""
    if high <= low:
        return [low]
    raw = (high - low) / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= raw)
    step = max(1.0, math.ceil(step)) if whole else step
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def percents(highest: float) -> Callable[[float], str]:
    """Return how shares up to this one are written: with as many digits as tell marks apart."""
    return (lambda v: f"{v:.0%}") if highest > 0.06 else (lambda v: f"{v:.1%}")


def short(text: str, longest: int = LONGEST) -> str:
    """Return a label that fits; the whole of it is in the table and where it is pointed at."""
    return text if len(text) <= longest else f"{text[: longest - 9]}…{text[-8:]}"


def _fitted(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low
    return lambda v: start + (end - start) * ((v - low) / span if span else 0.5)


def _grid(fit: Callable[[float], float], marks: Sequence[float], write: Callable[[float], str]) -> Markup:
    drawn = []
    for value in marks:
        y = fit(value)
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", write(value), x=LEFT - 6, y=y + 4, class_="value end"))
    return join(*drawn)
