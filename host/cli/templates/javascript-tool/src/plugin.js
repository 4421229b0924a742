// What the host calls: JSON in, JSON or an error out. The tool itself is in `greet.js`.

import { BlankName, greet } from './greet.js';

// `cofferdam:tool/tools`. What is thrown is the error of the WIT function's result.
export const tools = {
    // The host has checked `args` against the tool's input schema.
    call(name, args, _context) {
        if (name !== 'greet') {
            throw toolError('not-found', 'UnknownTool', `no tool '${name}'`);
        }
        try {
            return JSON.stringify(greet(JSON.parse(args)));
        } catch (error) {
            if (error instanceof BlankName) {
                throw toolError('invalid-args', 'BlankName', error.message);
            }
            throw toolError('failed', 'InternalError', String(error));
        }
    },
};

// `code` is a stable name that agents branch on; the message says what would be right.
function toolError(kind, code, message) {
    return { kind, code, message, detail: undefined };
}
