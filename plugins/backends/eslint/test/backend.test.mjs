// Tests, run by `npm test`: the component's own code except app.js, bundled as in build.mjs, on
// Node.js.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { backend } from './backend.mjs';

const { directoriesAbove, evaluate, findConfig, inside, Invalid, lint, Positions } = await backend();

const encode = text => new TextEncoder().encode(text);

function configure(files = {}, request = {}) {
    const read = path => files[path];
    return findConfig(read, { root: '', paths: ['a.js'], select: [], ...request });
}

function findings(source, files, request) {
    const data = typeof source === 'string' ? encode(source) : source;
    return lint(configure(files, request), request?.select ?? [], 'a.js', data);
}

const shown = found => found.map(({ line, column, code }) => `${line}:${column} ${code}`);

const rules = (rules, rest) => ({ '.eslintrc.json': JSON.stringify({ rules, ...rest }) });

const MODULES = { parserOptions: { sourceType: 'module' } };

test('what is recommended is found, in order', () => {
    assert.deepEqual(shown(findings('debugger;\nvar a = b;\n')), [
        '1:1 no-debugger',
        '2:5 no-unused-vars',
        '2:9 no-undef',
    ]);
    assert.deepEqual(findings('window.a; process.b; describe;\n').length, 1);
});

test('columns count characters', () => {
    for (const text of ['é', '😀', 'ab']) {
        const before = [...`x("${text}", `].length;
        assert.deepEqual(shown(findings(`x("${text}", y);`, rules({ 'no-undef': 2 }))), [
            '1:1 no-undef',
            `1:${before + 1} no-undef`,
        ]);
    }
    const positions = new Positions('a\r\n😀b\n');
    assert.equal(positions.column(2, 4), 3);
    assert.equal(positions.column(2, 9), 8);
    assert.equal(positions.column(0, 0), 0);
});

test('fixes are bytes of the file as it was read', () => {
    const source = '\uFEFFvar a = "é"; \r\nvar b = "😀" == a;\r\n';
    const found = findings(source, rules({ 'no-var': 2, 'unicode-bom': [2, 'never'] }, MODULES));
    const data = Buffer.from(source);
    const replaced = found.map(({ fix: { safe, edits: [{ start, end, text }] } }) => {
        assert.ok(safe);
        return [data.subarray(Number(start), Number(end)).toString(), text];
    });
    assert.deepEqual(replaced, [
        ['\uFEFF', ''],
        ['var a = "é";', 'let a = "é";'],
        ['var b = "😀" == a;', 'let b = "😀" == a;'],
    ]);
});

test('files that are no JavaScript', () => {
    assert.deepEqual(shown(findings('')), []);
    assert.deepEqual(shown(findings('function (\n')), ['1:10 syntax-error']);
    assert.deepEqual(shown(findings('a(\n', {}, { select: ['eqeqeq'] })), ['2:1 syntax-error']);
    assert.deepEqual(shown(findings(Uint8Array.of(0xff, 0xfe))), ['0:0 syntax-error']);
    const [tooDeep, ...others] = findings(`x = ${'!'.repeat(1e5)}1`);
    assert.deepEqual([tooDeep.code, others], ['syntax-error', []]);
});

test('a selection filters, and turns on what nobody turned off', () => {
    const source = 'let a = b == 1;\n';
    assert.deepEqual(shown(findings(source, {}, { select: ['no-undef'] })), ['1:9 no-undef']);
    assert.deepEqual(shown(findings(source, {}, { select: ['eqeqeq'] })), ['1:11 eqeqeq']);
    assert.deepEqual(shown(findings(source, {}, { select: ['no-'] })), ['1:5 no-unused-vars', '1:9 no-undef']);
    assert.deepEqual(shown(findings(source, rules({ eqeqeq: 0 }), { select: ['eqeqeq'] })), []);
});

test('comments of ESLint are honoured', () => {
    assert.deepEqual(shown(findings('debugger; // eslint-disable-line\n')), []);
    const [unused] = findings('// eslint-disable-next-line eqeqeq\nexport {};\n');
    assert.deepEqual([unused.code, unused.severity, unused.url], ['directive', 'warning', undefined]);
});

test('configurations in JSON', () => {
    const config = {
        '.eslintrc.json': `{ // with a comment
            "root": true, "extends": "eslint:recommended", "env": { "node": true, "es2021": true },
            "rules": { "no-var": "warn", "semi": ["error", "always"], },
            "overrides": [{ "files": "*.js", "excludedFiles": "b.js", "globals": { "known": true } }],
            "ignorePatterns": ["old/"] }`,
    };
    const found = findings('var a = require(known, window)\n', config);
    assert.deepEqual(shown(found), ['1:1 no-var', '1:5 no-unused-vars', '1:24 no-undef', '1:31 semi']);
    assert.equal(found[0].severity, 'warning');
    assert.equal(configure(config).getConfig('/workspace/sub/old/a.js'), undefined);
    const inPackage = { 'package.json': '{"eslintConfig": {"rules": {"no-debugger": 2}}}' };
    assert.deepEqual(shown(findings('debugger; a\n', inPackage)), ['1:1 no-debugger']);
    assert.deepEqual(shown(findings('debugger;\n', { 'package.json': '{}' })), ['1:1 no-debugger']);
});

test('configurations in JavaScript', () => {
    const esm = `import js from '@eslint/js'; import * as all from "globals";
        import { defineConfig as define, globalIgnores } from 'eslint/config';
        export const unused = import.meta.dirname;
        export default define([globalIgnores(['old/']), js.configs.recommended,
            { languageOptions: { globals: all.default.node }, rules: { 'no-console': 1 } }]);`;
    const cjs = `const js = require('@eslint/js');
        module.exports = [js.configs.recommended, { rules: { 'no-console': 'warn', 'no-undef': 0 } }];`;
    for (const [name, text] of [['eslint.config.mjs', esm], ['eslint.config.js', cjs]]) {
        assert.deepEqual(shown(findings('console.log(1);\n', { [name]: text })), ['1:1 no-console'], name);
    }
    assert.equal(evaluate('export default import.meta.url', 'sub/x.js'), 'file:///workspace/sub/x.js');
    assert.equal(evaluate('#!/usr/bin/env node\nmodule.exports = __dirname', 'sub/x.js'), '/workspace/sub');
});

test('configurations that are wrong are named, with what is wrong', () => {
    for (const [name, text, wanted] of [
        ['.eslintrc.json', '{"rules": {"no-var": "maybe"}}', 'Expected severity'],
        ['.eslintrc.json', '{"rules": {"nope": 2}}', 'Could not find "nope"'],
        ['.eslintrc.json', '{"rules": ', 'JSON'],
        ['.eslintrc.json', '[]', 'has to be an object'],
        ['.eslintrc', '{"extends": "airbnb"}', "'extends' names 'airbnb'"],
        ['.eslintrc', '{"plugins": ["react"]}', "the plugin 'react'"],
        ['.eslintrc', '{"parser": "x"}', "'parser' is unknown"],
        ['.eslintrc', '{"env": {"moon": true}}', "'env' names 'moon'"],
        ['.eslintrc', '{"ignorePatterns": [1]}', "'ignorePatterns' is malformed"],
        ['package.json', '{"eslintConfig": {"overrides": [3]}}', "'overrides' is malformed"],
        ['eslint.config.js', "import ts from 'typescript-eslint'; export default [];", "imports 'typescript-eslint'"],
        ['eslint.config.js', 'export default 1;', 'has to give an array or an object'],
        ['eslint.config.js', "export * from 'globals';", 'only a default export'],
        ['eslint.config.js', 'export default [', 'Unexpected token'],
        ['eslint.config.js', 'throw new Error("no luck")', 'no luck'],
        ['eslint.config.mjs', 'export default [{ rulez: {} }]', 'rulez'],
    ]) {
        assert.throws(
            () => configure({ [name]: text }),
            error => error instanceof Invalid && error.message.startsWith(`${name}: `) && error.message.includes(wanted),
            `${name}: ${text}`,
        );
    }
    assert.throws(() => configure({}, { config: 'none.json' }), /there is no configuration file none\.json/);
});

test('the nearest configuration counts, or the one that is asked for', () => {
    const files = {
        'eslint.config.js': 'export default [{ rules: { eqeqeq: 2 } }]',
        'sub/.eslintrc.json': '{"rules": {"no-var": 2}}',
    };
    const has = (rule, request, path = 'a.js') =>
        rule in configure(files, request).getConfig(`/workspace/${path}`).rules;
    assert.ok(has('eqeqeq', { paths: ['a.js', 'sub/b.js'] }));
    assert.ok(has('no-var', { paths: ['sub/b.js'] }, 'sub/b.js'));
    assert.ok(has('no-var', { config: 'sub/.eslintrc.json' }));
    assert.deepEqual(directoriesAbove(['a/b/c.js', 'a/b/d.js']), ['a/b', 'a', '']);
    assert.deepEqual(directoriesAbove(['a', 'b']), ['']);
});

test('paths stay inside', () => {
    for (const [path, wanted] of [['', ''], ['.', ''], ['./a//b/', 'a/b'], ['a/../b', 'b'], ['..a', '..a']]) {
        assert.equal(inside(path), wanted);
    }
    for (const path of ['/etc', '..', '../a', 'a/../../b']) {
        assert.throws(() => inside(path), Invalid);
    }
});
