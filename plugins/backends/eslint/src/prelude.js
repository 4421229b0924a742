// Defines what the bundled packages expect of Node.js when they are loaded. The component has no
// clock, no random numbers and no streams, so nothing here may use these.

globalThis.process ??= {
    argv: [],
    cwd: () => '/',
    emitWarning() {},
    env: {},
    hrtime: () => [0, 0],
    on() {},
    platform: 'linux',
    versions: {},
};

Math.random = () => 0.5;
Date.now = () => 0;

for (const name of ['debug', 'error', 'info', 'log', 'trace', 'warn']) {
    console[name] = () => {};
}
