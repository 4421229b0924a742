// Files of the workspace, by the interfaces of WASI. Paths are relative to the workspace. A tool that
// reads needs `files = "read"` under `[requests]` and `effects = "read"` in `plugin.toml`, and one that
// changes files "write". The host commits the changes of a call if it succeeds.

import { getDirectories } from 'wasi:filesystem/preopens@0.2.6';

// The most that one call of WASI reads or writes, in bytes.
const CHUNK = 1 << 20;

/** An operation failed; `code` is WASI's, such as `no-entry`. */
export class FileError extends Error {
    constructor(path, code) {
        super(`${path}: ${code}`);
        this.code = code;
    }
}

/** Reads a file as bytes. */
export function read(path) {
    return opened(path, {}, { read: true }, (file) => {
        const chunks = [];
        for (let at = 0; ; ) {
            const [bytes, end] = file.read(BigInt(CHUNK), BigInt(at));
            chunks.push(bytes);
            at += bytes.length;
            if (end || bytes.length === 0) return joined(chunks, at);
        }
    });
}

/** Writes a file: creates it, or replaces its contents. Its directory has to exist. */
export function write(path, bytes) {
    opened(path, { create: true, truncate: true }, { write: true }, (file) => {
        for (let at = 0; at < bytes.length; ) {
            at += Number(file.write(bytes.subarray(at, at + CHUNK), BigInt(at)));
        }
    });
}

/** Reads a text. Bytes that are not UTF-8 are an error. */
export function readText(path) {
    const bytes = read(path);
    try {
        return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
        throw new FileError(path, 'illegal-byte-sequence');
    }
}

/** Writes a text as UTF-8, as [write] does. */
export function writeText(path, text) {
    write(path, new TextEncoder().encode(text));
}

/** Lists a directory: `{ name, type }`, with types such as `regular-file` and `directory`. */
export function list(path = '.') {
    return opened(path, { directory: true }, { read: true }, (directory) => {
        const entries = [];
        const stream = directory.readDirectory();
        for (let entry; (entry = stream.readDirectoryEntry()); ) entries.push(entry);
        return entries;
    });
}

/** Deletes a file. */
export function remove(path) {
    attempt(path, () => workspace().unlinkFileAt(path));
}

/** Creates a directory. */
export function createDirectory(path) {
    attempt(path, () => workspace().createDirectoryAt(path));
}

function workspace() {
    const found = getDirectories().find(([, name]) => name === '/workspace');
    if (!found) throw new FileError('/workspace', 'not-permitted');
    return found[0];
}

function opened(path, openFlags, flags, use) {
    return attempt(path, () => {
        const file = workspace().openAt({ symlinkFollow: true }, path, openFlags, flags);
        try {
            return use(file);
        } finally {
            file[Symbol.dispose]?.();
        }
    });
}

function attempt(path, action) {
    try {
        return action();
    } catch (error) {
        // What a function of WIT returns as its error is the payload of what is thrown: here, the name of a case.
        const code = error?.payload ?? error;
        if (typeof code !== 'string') throw error;
        throw new FileError(path, code);
    }
}

function joined(chunks, length) {
    if (chunks.length === 1) return chunks[0];
    const all = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
        all.set(chunk, at);
        at += chunk.length;
    }
    return all;
}
