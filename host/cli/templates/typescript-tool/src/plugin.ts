// What the host calls: JSON in, JSON or an error out. The tool itself is in `greet.ts`.

import type { ErrorKind, ToolError, Tools } from './cofferdam.js';
import { BlankName, greet } from './greet.js';

// What is thrown is the error of the WIT function's result.
export const tools: Tools = {
    call(name, args) {
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

function toolError(kind: ErrorKind, code: string, message: string): ToolError {
    return { kind, code, message };
}
