// Loads the component's code as a module of Node.js.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { bundled } from '../bundle.mjs';

const ENTRY = ['config', 'eslintrc', 'invalid', 'lint', 'module', 'paths', 'positions']
    .map(name => `export * from './${name}.js';`)
    .join('\n');

export async function backend() {
    const directory = await mkdtemp(join(tmpdir(), 'cofferdam-eslint-'));
    try {
        const file = join(directory, 'backend.mjs');
        await writeFile(file, await bundled(ENTRY));
        return await import(pathToFileURL(file));
    } finally {
        await rm(directory, { recursive: true });
    }
}
