"""Findings in a bounded number, with exact totals: as `BoundedFindings` of the SDK for Rust."""

from collections import Counter

from .findings import Finding

MAX_FINDINGS = 10_000

# The URL of a finding that counts others: it has no path, and its message is their number.
LEFT_OUT = "cofferdam:left-out"


class BoundedFindings:
    """Collects findings by file. Files with the most findings lose some first."""

    def __init__(self) -> None:
        self._files: dict[str, list[Finding]] = {}
        self._kept = 0
        self._per_file: int | None = None
        self._left_out: Counter[tuple[str, bool]] = Counter()

    def add(self, path: str, findings: list[Finding]) -> None:
        """Adds all findings of a file."""
        self._files[path] = findings
        self._kept += len(findings)
        self._cut(path)
        while self._kept > MAX_FINDINGS:
            longest = max(map(len, self._files.values()))
            if longest <= 1:
                self._drop(path, 0)
                return
            self._per_file = longest // 2
            for file in self._files:
                self._cut(file)

    def finish(self) -> tuple[list[tuple[str, Finding]], Counter[tuple[str, bool]]]:
        """The findings by path, and the number of those left out by code and `is_warning`."""
        return [(path, found) for path in sorted(self._files) for found in self._files[path]], self._left_out

    def _cut(self, path: str) -> None:
        if self._per_file is not None and len(self._files[path]) > self._per_file:
            self._drop(path, self._per_file)

    def _drop(self, path: str, most: int) -> None:
        """Keeps this many findings of a file, errors first."""
        findings = sorted(self._files[path], key=lambda found: found.is_warning)
        self._left_out.update((found.code, found.is_warning) for found in findings[most:])
        self._kept -= len(findings) - most
        self._files[path] = sorted(findings[:most], key=lambda found: found.order)
