// The interfaces in `wit/deps` that this plugin uses, as TypeScript sees them.

/** `cofferdam:tool/types.error-kind` */
export type ErrorKind =
    | 'invalid-args'
    | 'not-found'
    | 'conflict'
    | 'denied'
    | 'limit'
    | 'unavailable'
    | 'failed';

/** `cofferdam:tool/types.tool-error`: thrown where a call does not succeed. */
export interface ToolError {
    kind: ErrorKind;
    /** A stable name that agents branch on. */
    code: string;
    /** What was wrong, where, and what would be right. */
    message: string;
    /** JSON, where the tool's contract has a failure document. */
    detail?: string;
}

/** `cofferdam:tool/types.call-context` */
export interface CallContext {
    callId: string;
    /** The workspace's path as the caller knows it; the plugin sees it as `/workspace`. */
    workspace: string;
    /** Milliseconds left until the host stops the call. */
    deadlineMs: number;
    /** Paths the call may touch, relative to the workspace; empty: all of it. */
    scope: string[];
}

/** `cofferdam:tool/tools` */
export interface Tools {
    /** Takes and answers JSON; the host has checked `args` against the tool's input schema. */
    call(name: string, args: string, context: CallContext): string;
}
