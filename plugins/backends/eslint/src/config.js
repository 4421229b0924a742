// Finds the workspace's configuration, and converts it for ESLint.

import js from '@eslint/js';
// The package does not export this module; build.mjs resolves it.
import { FlatConfigArray } from 'eslint/flat-config-array';
import globals from 'globals';
import stripJsonComments from 'strip-json-comments';

import { fromEslintrc } from './eslintrc.js';
import { Invalid } from './invalid.js';
import { evaluate } from './module.js';
import { directoriesAbove, join } from './paths.js';

/** The path of the workspace for ESLint, which needs absolute paths. */
export const BASE = '/workspace';

export const EXTENSIONS = ['js', 'mjs', 'cjs', 'jsx'];

const parseJson = text => JSON.parse(stripJsonComments(text, { trailingCommas: true }));

/** Loads each kind of configuration file; undefined if the file has no configuration. */
const KINDS = {
    'eslint.config.js': evaluate,
    'eslint.config.mjs': evaluate,
    'eslint.config.cjs': evaluate,
    '.eslintrc.json': text => fromEslintrc(parseJson(text)),
    '.eslintrc': text => fromEslintrc(parseJson(text)),
    'package.json': text => {
        const { eslintConfig } = JSON.parse(text) ?? {};
        return eslintConfig && fromEslintrc(eslintConfig);
    },
};

/** The configuration of a workspace without one: ESLint's recommended rules, for browsers and Node.js. */
const DEFAULT = [
    {
        files: EXTENSIONS.map(extension => `**/*.${extension}`),
        ...js.configs.recommended,
        languageOptions: {
            globals: { ...globals.browser, ...globals.node },
            parserOptions: { ecmaFeatures: { jsx: true } },
        },
    },
    {
        files: ['**/*.{test,spec}.*', '**/{test,tests,__tests__}/**'],
        languageOptions: { globals: { ...globals.jest, ...globals.mocha, ...globals.vitest } },
    },
];

/**
 * The configuration for a request.
 *
 * @param read Returns the text of a file in the workspace, or undefined if it does not exist.
 */
export function findConfig(read, { root, config, paths, select }) {
    if (config !== undefined) {
        const text = read(config);
        if (text === undefined) {
            throw new Invalid(`there is no configuration file ${config}`);
        }
        const name = config.split('/').pop();
        const kind = KINDS[name] ?? (/\.[cm]?js$/.test(name) ? evaluate : KINDS['.eslintrc.json']);
        // As with ESLint's own option, its patterns are relative to the linter's directory.
        const found = load(config, text, kind, root);
        if (found === undefined) {
            throw new Invalid(`${config} holds no configuration`);
        }
        return found;
    }
    for (const directory of directoriesAbove(paths)) {
        for (const [name, kind] of Object.entries(KINDS)) {
            const path = join(directory, name);
            const text = read(path);
            const found = text === undefined ? undefined : load(path, text, kind, directory);
            if (found !== undefined) {
                return found;
            }
        }
    }
    return normalize(DEFAULT, BASE);

    function load(path, text, kind, base) {
        try {
            const value = kind(text.replace(/^\uFEFF/, ''), path);
            if (value === undefined && kind !== evaluate) {
                return undefined;
            }
            if (value === null || typeof value !== 'object' || typeof value.then === 'function') {
                throw new Invalid('it has to give an array or an object');
            }
            return normalize(value, base === '' ? BASE : join(BASE, base));
        } catch (error) {
            throw new Invalid(`${path}: ${error?.message ?? error}`);
        }
    }

    function normalize(value, basePath) {
        // Rules that the request selects by name are on, unless the configuration says otherwise.
        const asked = Object.fromEntries(
            select.filter(code => Object.hasOwn(js.configs.all.rules, code)).map(code => [code, 2]),
        );
        const configs = new FlatConfigArray([{ rules: asked }, value].flat(Infinity), { basePath });
        configs.normalizeSync();
        // Done also for a file that does not exist, so that an invalid configuration is an error at
        // once.
        configs.getConfig(`${basePath}/example.js`);
        return configs;
    }
}
