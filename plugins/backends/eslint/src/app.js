// The component's exports, and access to the files of the workspace.

import './prelude.js';

import { Scanner } from 'cofferdam:host/scan@0.1.0';

import { BoundedFindings } from './bounded.js';
import { EXTENSIONS, findConfig } from './config.js';
import { Invalid } from './invalid.js';
import { isCovered, lint, version, wholeFile } from './lint.js';
import { inside } from './paths.js';

const NAME = 'eslint';

/** The number of bytes that the host reads at once. */
const BATCH = 256 * 1024;

/** The number of files that the host lists at once. */
const LISTING = 4096;

const dispose = Symbol.dispose ?? Symbol.for('dispose');

export const linter = {
    version(name) {
        checkName(name);
        return version;
    },

    lint(name, request) {
        checkName(name);
        try {
            return report(request);
        } catch (error) {
            const tag = error instanceof Invalid ? 'invalid' : 'failed';
            throw { tag, val: String(error?.message ?? error) };
        }
    },
};

function checkName(name) {
    if (name !== NAME) {
        throw { tag: 'invalid', val: `there is no backend '${name}' in this plugin` };
    }
}

function report({ root, paths, config, select }) {
    const roots = paths.map(inside);
    if (!roots.length) {
        throw new Invalid('no path is given');
    }
    if (select.some(code => code.trim() === '')) {
        throw new Invalid('an empty code is selected');
    }
    const configs = findConfig(readText, {
        root: inside(root),
        config: config === undefined || config === null ? undefined : inside(config),
        paths: roots,
        select,
    });
    const seen = new Set();
    const bounded = new BoundedFindings();
    for (const path of roots) {
        for (const [file, data] of files(path)) {
            if (seen.has(file) || !isCovered(configs, file)) {
                continue;
            }
            seen.add(file);
            const found = data ? lint(configs, select, file, data) : [wholeFile(file, "the file can't be read")];
            bounded.add(file, found);
        }
    }
    const findings = bounded.finish();
    const raw = findings.filter(({ path }) => path).map(
        ({ path, line, column, code, message }) => `${path}:${line}:${column}: ${code} ${message}\n`,
    );
    return { findings, filesChecked: seen.size, exitCode: undefined, raw: raw.join('') };
}

function open(root) {
    return Scanner.open({
        root,
        globs: EXTENSIONS.map(extension => `*.${extension}`),
        excludeGlobs: [],
        types: [],
        ignoreFiles: true,
        hidden: false,
        followLinks: false,
        maxFileSize: undefined,
    });
}

/** All files below a path with their contents; undefined for a file that can't be read. */
function* files(path) {
    let scanner;
    try {
        scanner = open(path);
    } catch (error) {
        throw new Invalid(String(error?.payload?.val ?? error));
    }
    try {
        const read = new Set();
        for (;;) {
            const { ids, ends, data } = scanner.next(BATCH);
            if (!ids.length) {
                break;
            }
            let start = 0;
            for (const [index, id] of ids.entries()) {
                const file = scanner.path(id);
                read.add(file);
                yield [file, data.subarray(start, ends[index])];
                start = ends[index];
            }
        }
        if (scanner.unreadable()) {
            for (let first = 0; first < scanner.count(); first += LISTING) {
                for (const { path: file } of scanner.files(first, LISTING)) {
                    if (!read.has(file)) {
                        yield [file, undefined];
                    }
                }
            }
        }
    } finally {
        scanner[dispose]();
    }
}

/** The text of a file; undefined if it does not exist or may not be read. */
function readText(path) {
    let scanner;
    try {
        scanner = open(path);
    } catch {
        return undefined;
    }
    try {
        const { ids, data } = scanner.next(BATCH);
        return ids.length === 1 && scanner.path(ids[0]) === path ? new TextDecoder().decode(data) : undefined;
    } finally {
        scanner[dispose]();
    }
}

// Linting once while the component is built loads the parts that ESLint loads late.
warmUp();

function warmUp() {
    const configs = findConfig(() => undefined, { root: '', paths: [''], select: [] });
    lint(configs, [], 'example.js', new TextEncoder().encode('var a = 1; debugger;\n'));
    lint(configs, [], 'example.js', new TextEncoder().encode('function (\n'));
}
