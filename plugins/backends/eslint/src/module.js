// Evaluates `eslint.config.js`. It is code of the workspace, and can use only what this component
// has: the files that a linter may read, and the packages below.

import js from '@eslint/js';
import { parse } from 'acorn';
import { defineConfig, globalIgnores } from 'eslint/config';
import globals from 'globals';

import { Invalid } from './invalid.js';

const PACKAGES = {
    '@eslint/js': { default: js, ...js },
    'eslint/config': { defineConfig, globalIgnores },
    globals: { default: globals, ...globals },
};

const OPTIONS = {
    allowAwaitOutsideFunction: true,
    allowHashBang: true,
    allowReturnOutsideFunction: true,
    ecmaVersion: 'latest',
};

/** Evaluates a module; returns its default export, or the value of `module.exports`. */
export function evaluate(text, path) {
    const [program, isModule] = parseAny(text);
    const body = isModule ? moduleBody(text, program, path) : text.replace(/^#!/, '//');
    const module = { exports: {} };
    const names = ['module', 'exports', 'require', '__dirname', '__filename', '__load', '__meta'];
    const run = new Function(...names, body);
    const load = name => {
        if (!Object.hasOwn(PACKAGES, name)) {
            const known = Object.keys(PACKAGES).join(', ');
            throw new Invalid(`it imports '${name}'; this linter has ${known} and nothing else`);
        }
        return PACKAGES[name];
    };
    const require = name => load(name).default ?? load(name);
    const meta = {
        dirname: `/workspace/${path}`.replace(/\/[^/]*$/, ''),
        filename: `/workspace/${path}`,
        url: `file:///workspace/${path}`,
    };
    run(module, module.exports, require, meta.dirname, meta.filename, load, meta);
    return isModule ? module.exports.default : module.exports;
}

function parseAny(text) {
    try {
        const program = parse(text, { ...OPTIONS, sourceType: 'module' });
        if (program.body.some(node => /^(?:Import|Export)/.test(node.type)) || /import\.meta/.test(text)) {
            return [program, true];
        }
    } catch (error) {
        try {
            return [parse(text, { ...OPTIONS, sourceType: 'script' }), false];
        } catch {
            throw error;
        }
    }
    return [undefined, false];
}

/** Converts a module to the body of a function: imports and exports become assignments. */
function moduleBody(text, program, path) {
    const edits = [];
    const replace = (from, to, by) => edits.push([from, to, by]);
    for (const node of program.body) {
        if (node.type === 'ImportDeclaration') {
            replace(node.start, node.end, imported(node));
        } else if (node.type === 'ExportDefaultDeclaration') {
            replace(node.start, node.declaration.start, 'exports.default = ');
        } else if (node.type === 'ExportNamedDeclaration' && node.declaration) {
            replace(node.start, node.declaration.start, '');
        } else if (node.type.startsWith('Export')) {
            throw new Invalid(`${path}: only a default export is understood`);
        }
    }
    for (const node of metaProperties(program)) {
        replace(node.start, node.end, '__meta');
    }
    edits.sort(([left], [right]) => right - left);
    const body = edits.reduce((body, [from, to, by]) => body.slice(0, from) + by + body.slice(to), text);
    return `'use strict'; ${body.replace(/^#!/, '//')}`;
}

function imported({ specifiers, source }) {
    const load = `__load(${JSON.stringify(source.value)})`;
    const names = specifiers.map(({ type, imported, local }) => {
        if (type === 'ImportNamespaceSpecifier') {
            return `${local.name} = ${load}`;
        }
        const name = type === 'ImportDefaultSpecifier' ? 'default' : (imported.name ?? imported.value);
        return `${local.name} = ${load}[${JSON.stringify(name)}]`;
    });
    return names.length ? `const ${names.join(', ')};` : `${load};`;
}

/** All occurrences of `import.meta` below a node. */
function* metaProperties(node) {
    if (node.type === 'MetaProperty' && node.meta.name === 'import') {
        yield node;
        return;
    }
    for (const value of Object.values(node)) {
        for (const child of [value].flat()) {
            if (child !== null && typeof child?.type === 'string') {
                yield* metaProperties(child);
            }
        }
    }
}
