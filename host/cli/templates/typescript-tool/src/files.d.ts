// The types of `files.js`.

/** An operation failed; `code` is WASI's, such as `no-entry`. */
export class FileError extends Error {
    readonly code: string;
}
/** Reads a file as bytes. */
export function read(path: string): Uint8Array;
/** Writes a file: creates it, or replaces its contents. Its directory has to exist. */
export function write(path: string, bytes: Uint8Array): void;
/** Reads a text. Bytes that are not UTF-8 are an error. */
export function readText(path: string): string;
/** Writes a text as UTF-8, as [write] does. */
export function writeText(path: string, text: string): void;
/** Lists a directory, with types such as `regular-file` and `directory`. */
export function list(path?: string): { name: string; type: string }[];
/** Deletes a file. */
export function remove(path: string): void;
/** Creates a directory. */
export function createDirectory(path: string): void;
