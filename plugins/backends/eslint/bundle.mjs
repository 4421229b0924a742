// Bundles the component's code and all packages that it uses into one module.

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const HERE = dirname(fileURLToPath(import.meta.url));

const require = createRequire(import.meta.url);

/** Bundles what `entry`, a module in `src`, imports and exports. */
export async function bundled(entry) {
    const eslint = dirname(require.resolve('eslint/package.json'));
    const { outputFiles } = await build({
        absWorkingDir: HERE,
        alias: {
            'eslint/flat-config-array': join(eslint, 'lib/config/flat-config-array.js'),
            'node:fs': join(HERE, 'src/absent.js'),
            'node:path': 'path-browserify',
            path: 'path-browserify',
        },
        bundle: true,
        external: ['cofferdam:*'],
        format: 'esm',
        logLevel: 'warning',
        minifySyntax: true,
        platform: 'browser',
        stdin: { contents: entry, resolveDir: join(HERE, 'src') },
        write: false,
    });
    return outputFiles[0].text;
}
