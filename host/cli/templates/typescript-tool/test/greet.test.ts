import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BlankName, greet } from '../src/greet.js';

test('a name is greeted and a blank name is an error', () => {
    assert.deepEqual(greet({ name: 'Ada' }), { text: 'Hello, Ada!' });
    assert.throws(() => greet({ name: ' ' }), BlankName);
});
