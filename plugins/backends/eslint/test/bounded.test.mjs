// Tests of the bound on findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BoundedFindings } from '../src/bounded.js';

const finding = (path, line, code, severity) => ({ path, line, column: 1, code, severity, message: 'words' });

const findings = (path, count, code, severity) =>
    Array.from({ length: count }, (_, index) => finding(path, index + 1, code, severity));

test('few findings are kept in the order of their files', () => {
    const bounded = new BoundedFindings();
    bounded.add('b.js', findings('b.js', 2, 'semi', 'warning'));
    bounded.add('a.js', findings('a.js', 1, 'semi', 'error'));
    const places = bounded.finish().map(({ path, line }) => `${path}:${line}`);
    assert.deepEqual(places, ['a.js:1', 'b.js:1', 'b.js:2']);
});

test('many findings are counted and spread over files', () => {
    const bounded = new BoundedFindings();
    const minified = findings('app.min.js', 150_000, 'semi', 'warning');
    bounded.add('app.min.js', [...minified, finding('app.min.js', 150_001, 'no-undef', 'error')]);
    for (let file = 0; file < 5_000; file += 1) {
        bounded.add(`src/${file}.js`, findings(`src/${file}.js`, 10, 'quotes', 'warning'));
    }
    const all = bounded.finish();
    const kept = all.filter(({ path }) => path);
    assert.ok(kept.length <= 10_000);
    assert.equal(new Set(kept.map(({ path }) => path)).size, 5_001);
    assert.ok(kept.some(({ code }) => code === 'no-undef'));
    for (const [code, total] of [['semi', 150_000], ['quotes', 50_000], ['no-undef', 1]]) {
        const left = all.find(found => !found.path && found.code === code);
        const listed = kept.filter(found => found.code === code).length;
        assert.equal(listed + Number(left?.message ?? 0), total, code);
    }
});
