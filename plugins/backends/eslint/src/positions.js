// From ESLint's positions to those of reports. ESLint counts UTF-16 code units and leaves a byte
// order mark out; reports count columns in Unicode scalar values, and edits in bytes of the file.

const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

const encoder = new TextEncoder();

const byteLength = text => encoder.encode(text).length;

export class Positions {
    #text;
    #bom;
    #lines;

    /** Of a text as it was decoded, with its byte order mark if it has one. */
    constructor(text) {
        this.#bom = text.startsWith('\uFEFF') ? 3 : 0;
        this.#text = this.#bom ? text.slice(1) : text;
        this.#lines = this.#text.split(LINE_END);
    }

    /** The column, from 1, of a column that ESLint counts from 1; 0 where it has none. */
    column(line, column) {
        if (!line || !column) {
            return 0;
        }
        const before = (this.#lines[line - 1] ?? '').slice(0, column - 1);
        let characters = 0;
        for (const _ of before) {
            characters += 1;
        }
        // What lies behind the line's end keeps its distance.
        return characters + (column - 1 - before.length) + 1;
    }

    /** The bytes that a range of ESLint's stands for; -1 is the byte order mark's place. */
    bytes([start, end]) {
        const offset = at => (at < 0 ? 0 : this.#bom + byteLength(this.#text.slice(0, at)));
        const first = offset(start);
        const length = start < 0 ? offset(end) : byteLength(this.#text.slice(start, end));
        return [first, first + length];
    }
}
