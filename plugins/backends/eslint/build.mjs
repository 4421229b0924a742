// Builds the component: `node build.mjs INTERFACES OUTPUT`, with the dependencies installed.
// `INTERFACES` is the directory with the project's WIT packages.
//
// All features of the engine that import WASI are disabled, so the component imports only what its
// world names.

import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import babel from '@babel/core';
import { componentize } from '@bytecodealliance/componentize-js';

import { bundled } from './bundle.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));

async function main(interfaces, output) {
    // The engine has no tables for `\p{...}` in regular expressions, so these are compiled away.
    const { code } = await babel.transformAsync(await bundled("export * from './app.js';"), {
        compact: false,
        configFile: false,
        cwd: HERE,
        plugins: ['@babel/plugin-transform-unicode-property-regex'],
        sourceType: 'module',
    });
    const directory = await mkdtemp(join(tmpdir(), 'cofferdam-eslint-'));
    try {
        const wit = join(directory, 'wit');
        await cp(interfaces, join(wit, 'deps'), { recursive: true });
        await cp(join(HERE, 'world.wit'), join(wit, 'world.wit'));
        const source = join(directory, 'eslint.js');
        await writeFile(source, code);
        const { component } = await componentize({
            disableFeatures: ['clocks', 'fetch-event', 'http', 'random', 'stdio'],
            sourcePath: source,
            witPath: wit,
            worldName: 'scanning-linter',
        });
        await writeFile(output, component);
    } finally {
        await rm(directory, { recursive: true });
    }
}

await main(...process.argv.slice(2));
