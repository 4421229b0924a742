import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BlankName, greet } from '../src/greet.js';

test('somebody is greeted, and nobody is not', () => {
    assert.deepEqual(greet({ name: 'Ada' }), { text: 'Hello, Ada!' });
    assert.throws(() => greet({ name: ' ' }), BlankName);
});
