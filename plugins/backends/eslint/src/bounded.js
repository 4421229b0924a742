// Findings in a bounded number, with exact totals: as `BoundedFindings` of the SDK for Rust. For each rule
// and severity of which findings are left out there is one more finding, without a path: its message is
// their number.

const MAX_FINDINGS = 10_000;

const LEFT_OUT = 'cofferdam:left-out';

const RANKS = ['error', 'warning', 'info'];

const rank = ({ severity }) => RANKS.indexOf(severity);

export class BoundedFindings {
    #files = new Map();
    #kept = 0;
    #perFile = Infinity;
    #leftOut = new Map();

    /** Adds the findings of one file. */
    add(path, findings) {
        this.#files.set(path, findings);
        this.#kept += findings.length;
        this.#cut(path);
        // Files with the most findings lose some first.
        while (this.#kept > MAX_FINDINGS) {
            let longest = 0;
            this.#files.forEach(findings => (longest = Math.max(longest, findings.length)));
            if (longest <= 1) {
                this.#drop(path, 0);
                return;
            }
            this.#perFile = Math.floor(longest / 2);
            for (const path of this.#files.keys()) {
                this.#cut(path);
            }
        }
    }

    #cut(path) {
        if (this.#files.get(path).length > this.#perFile) {
            this.#drop(path, this.#perFile);
        }
    }

    /** Keeps this many findings of a file, errors first. */
    #drop(path, most) {
        const findings = [...this.#files.get(path)].sort((left, right) => rank(left) - rank(right));
        for (const { code, severity } of findings.slice(most)) {
            const key = JSON.stringify([code, severity]);
            this.#leftOut.set(key, (this.#leftOut.get(key) ?? 0) + 1);
        }
        this.#kept -= findings.length - most;
        const kept = findings.slice(0, most);
        this.#files.set(path, kept.sort((left, right) => left.line - right.line || left.column - right.column));
    }

    /** The findings by path, and those that count others. */
    finish() {
        const paths = [...this.#files.keys()].sort();
        const counts = [...this.#leftOut].map(([key, count]) => {
            const [code, severity] = JSON.parse(key);
            return { path: '', line: 0, column: 0, code, severity, message: String(count), url: LEFT_OUT };
        });
        return [...paths.map(path => this.#files.get(path)), counts].flat();
    }
}
