// Converts configurations in JSON (`.eslintrc.json`, `eslintConfig` in package.json) to flat ones.
// They can use only what this component contains: ESLint's own rules and the known environments.

import js from '@eslint/js';
import globals from 'globals';

import { Invalid } from './invalid.js';

const EXTENDS = {
    'eslint:all': js.configs.all,
    'eslint:recommended': js.configs.recommended,
};

// https://eslint.org/docs/v8.x/use/configure/language-options#specifying-environments
const ECMA_VERSIONS = {
    es6: 6,
    ...Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`es${2015 + index}`, 6 + index])),
};

const KEYS = [
    '$schema', 'env', 'excludedFiles', 'extends', 'files', 'globals', 'ignorePatterns',
    'noInlineConfig', 'overrides', 'parserOptions', 'plugins', 'reportUnusedDisableDirectives',
    'root', 'rules', 'settings',
];

/** Converts to a flat configuration; throws problems as text. */
export function fromEslintrc(config) {
    if (config === null || typeof config !== 'object' || Array.isArray(config)) {
        throw new Invalid('it has to be an object');
    }
    const ignores = list(config.ignorePatterns, 'ignorePatterns').map(ignorePattern);
    return [
        ...(ignores.length ? [{ ignores }] : []),
        ...entries(config, {}),
        ...list(config.overrides, 'overrides').flatMap(override =>
            entries(override, {
                files: list(override.files, 'files').map(anywhere),
                ...(override.excludedFiles && {
                    ignores: list(override.excludedFiles, 'excludedFiles').map(anywhere),
                }),
            }),
        ),
    ];
}

function entries(config, scope) {
    const unknown = Object.keys(config).find(key => !KEYS.includes(key));
    if (unknown) {
        throw new Invalid(`'${unknown}' is unknown, or needs a package that this linter does not have`);
    }
    const plugin = list(config.plugins, 'plugins')[0];
    if (plugin !== undefined) {
        throw new Invalid(`the plugin '${plugin}' is a package that this linter does not have`);
    }
    const inherited = list(config.extends, 'extends').map(name => {
        if (!Object.hasOwn(EXTENDS, name)) {
            throw new Invalid(
                `'extends' names '${name}'; this linter has ${Object.keys(EXTENDS).join(' and ')}`,
            );
        }
        return { ...EXTENDS[name], ...scope };
    });
    const own = { ...scope, languageOptions: languageOptions(config) };
    for (const key of ['rules', 'settings']) {
        if (config[key] !== undefined) {
            own[key] = config[key];
        }
    }
    const linterOptions = {};
    for (const key of ['noInlineConfig', 'reportUnusedDisableDirectives']) {
        if (config[key] !== undefined) {
            linterOptions[key] = config[key];
        }
    }
    return [...inherited, { ...own, linterOptions }];
}

function languageOptions({ env = {}, globals: own = {}, parserOptions = {} }) {
    const { ecmaVersion, sourceType, ...rest } = parserOptions;
    const options = { globals: {}, parserOptions: rest };
    for (const [name, isOn] of Object.entries(env)) {
        if (!Object.hasOwn(globals, name) && !Object.hasOwn(ECMA_VERSIONS, name)) {
            throw new Invalid(`'env' names '${name}', which is no known environment`);
        }
        if (isOn) {
            Object.assign(options.globals, globals[name === 'es6' ? 'es2015' : name]);
            options.ecmaVersion = Math.max(options.ecmaVersion ?? 0, ECMA_VERSIONS[name] ?? 0);
        }
    }
    options.ecmaVersion = ecmaVersion ?? (options.ecmaVersion || 'latest');
    // The default in such a configuration is scripts, in a flat one modules.
    options.sourceType = env.node && !sourceType ? 'commonjs' : (sourceType ?? 'script');
    Object.assign(options.globals, own);
    return options;
}

function list(value, key) {
    const items = value === undefined ? [] : [value].flat();
    const isRight = key === 'overrides'
        ? item => item !== null && typeof item === 'object'
        : item => typeof item === 'string';
    if (!items.every(isRight)) {
        throw new Invalid(`'${key}' is malformed`);
    }
    return items;
}

/** Converts a pattern: one without a `/` matches at any depth. */
function anywhere(pattern) {
    return pattern.includes('/') ? pattern.replace(/^\.?\//, '') : `**/${pattern}`;
}

/** Converts patterns with the syntax of .gitignore. */
function ignorePattern(pattern) {
    const negation = pattern.startsWith('!') ? '!' : '';
    const rest = pattern.slice(negation.length);
    const isAnchored = rest.slice(0, -1).includes('/');
    return negation + (isAnchored ? rest.replace(/^\//, '') : `**/${rest}`);
}
