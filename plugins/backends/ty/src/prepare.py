# Uses what most scripts use, so that it is inferred when the plugin is packed.
import asyncio
import base64
import collections
import dataclasses
import datetime
import functools
import itertools
import json
import math
import re
import sys
import typing
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict


class Item(TypedDict):
    name: str
    size: NotRequired[int | None]
    kind: Literal["a", "b"]


class Found(TypedDict):
    items: list[Item]
    names: list[str]
    total: int
    extra: dict[str, Any]


class Failure(Exception):
    code: str
    message: str
    detail: Any


class _Tools:
    @staticmethod
    def find(*, name: str, limit: int | None = None, kinds: list[str] | tuple[str, ...] | None = None) -> Found:
        raise NotImplementedError

    @staticmethod
    async def find_later(*, name: str, **others: Any) -> Found:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError


tools = _Tools()


@dataclass
class Point:
    x: int
    y: int = 0


def texts(lines: list[str], more: dict[str, int]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        words = line.strip().lower().replace("a", "b").split(",")
        if line.startswith("x") and not line.endswith("y") or "z" in line:
            continue
        out.setdefault(words[0], []).append(f"{number:>4}: {line.rstrip()!r}")
        more[words[-1]] = more.get(words[-1], 0) + len(words)
    for key, value in sorted(more.items(), key=lambda pair: pair[1], reverse=True):
        out[key] = [str(value), "".join(reversed(key)), key[1:-1], key.upper(), key.title()]
        out[key].extend(key.splitlines())
    return {key: list(values) for key, values in zip(out.keys(), out.values())}


def matches(text: str) -> list[tuple[int, str]]:
    pattern = re.compile(r"(\w+)\s*=\s*(\d+)", re.MULTILINE)
    found = [(int(m.group(2)), m.group(1)) for m in pattern.finditer(text)]
    found += [(len(name), name) for name in re.findall("a", text) if isinstance(name, str)]
    first = re.search("a", text) or re.match("b", text)
    if first is not None:
        found.append((first.start(), re.sub("a", "b", first.group(0))))
    return sorted(set(found))


def numbers(values: list[int]) -> float:
    total = sum(values) + max(values, default=0) - min(values) + abs(-1) + round(1.5)
    ratio = total / (len(values) or 1) * 2 // 3 % 5 ** 2
    if any(value > 3 for value in values) and all(value < 9 for value in values) or total <= 0:
        return float(math.sqrt(ratio))
    return math.floor(ratio) + functools.reduce(lambda a, b: a + b, values)


async def later(names: list[str]) -> list[Found]:
    one = await tools.find_later(name="a")
    found = await asyncio.gather(*[tools.find_later(name=name) for name in names])
    return [one, *found]


def main(paths: list[str]) -> dict[str, Any]:
    found = tools.find(name="a", limit=3, kinds=["a", "b"])
    counts: Counter[str] = Counter()
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in found["items"]:
        counts[item["name"]] += item.get("size") or 1
        groups[item["kind"]].append(item)
    try:
        extra = json.loads(json.dumps(found["extra"], indent=2))
        now = datetime.datetime(2020, 1, 2).isoformat() + str(datetime.timedelta(days=1))
    except Failure as error:
        print(error.code, error.message, str(error), file=sys.stderr)
        raise ValueError(f"failed: {error.detail}") from error
    except (KeyError, Exception) as error:
        extra, now = {}, repr(error)
    finally:
        done = True
    chained = list(itertools.chain.from_iterable([paths, found["names"]]))
    while chained and done:
        chained.pop()
    assert isinstance(now, str)
    point = Point(1, y=2)
    names = {path: base64.b64encode(path.encode()).decode() for path in paths if path}
    kept = list(filter(None, map(str, range(0, 10, 2))))
    numbers([1, 2]), texts(kept, {}), matches(now), collections.deque([1])
    both = dataclasses.asdict(point) | names
    a, *rest = (1, 2.0, None, True)
    text = "\n".join(f"{name}: {count}" for name, count in counts.most_common(3))
    return {"value": extra, "rest": rest + [a], "text": text, "both": both, "n": found["total"] + 1}


hits = main(["a"])
lines = [line for path in hits["text"].split("\n") for line in path.partition(":")[2]]
print(len(lines), typing.cast(int, hits["n"]), sep=", ", end="\n")
hits
