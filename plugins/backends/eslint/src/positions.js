// Converts ESLint's positions to those of reports. ESLint counts UTF-16 code units and ignores a
// byte order mark; reports count columns in Unicode scalar values, and edits in bytes of the file.

const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

const encoder = new TextEncoder();

const byteLength = text => encoder.encode(text).length;

export class Positions {
    #text;
    #bom;
    #lines;

    /** Takes the decoded text of a file, with its byte order mark if it has one. */
    constructor(text) {
        this.#bom = text.startsWith('\uFEFF') ? 3 : 0;
        this.#text = this.#bom ? text.slice(1) : text;
        this.#lines = this.#text.split(LINE_END);
    }

    /** Converts a column of ESLint, from 1, to one in Unicode scalar values; 0 if ESLint has none. */
    column(line, column) {
        if (!line || !column) {
            return 0;
        }
        const before = (this.#lines[line - 1] ?? '').slice(0, column - 1);
        let characters = 0;
        for (const _ of before) {
            characters += 1;
        }
        // A position after the line's end keeps its distance from it.
        return characters + (column - 1 - before.length) + 1;
    }

    /** Converts a range of ESLint to bytes; -1 is the position of the byte order mark. */
    bytes([start, end]) {
        const offset = at => (at < 0 ? 0 : this.#bom + byteLength(this.#text.slice(0, at)));
        const first = offset(start);
        const length = start < 0 ? offset(end) : byteLength(this.#text.slice(start, end));
        return [first, first + length];
    }
}
