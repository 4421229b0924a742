// Lints one file: converts its bytes to findings.

import { Linter } from 'eslint/universal';

import { BASE } from './config.js';
import { Positions } from './positions.js';

const SYNTAX_ERROR = 'syntax-error';

/** The code of messages about ESLint's own comments, which have no rule. */
const DIRECTIVE = 'directive';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const linter = new Linter({ configType: 'flat', cwd: BASE });

export const version = linter.version;

/** Whether the configuration applies to a file. */
export function isCovered(configs, path) {
    return configs.getConfig(`${BASE}/${path}`) !== undefined;
}

/** The findings of one file, in the order of its lines. */
export function lint(configs, select, path, data) {
    let text;
    try {
        text = decoder.decode(data);
    } catch {
        return [wholeFile(path, 'the file is no UTF-8')];
    }
    let messages;
    try {
        messages = linter.verify(text, configs, { filename: `${BASE}/${path}` });
    } catch (error) {
        if (/recursion|call stack/i.test(String(error?.message))) {
            return [wholeFile(path, 'nested too deeply to be checked')];
        }
        throw error;
    }
    const positions = new Positions(text);
    return messages
        .map(message => finding(path, positions, message))
        .filter(({ code }) => isSelected(select, code))
        .sort(byPosition);
}

function isSelected(select, code) {
    return !select.length || code === SYNTAX_ERROR || select.some(prefix => code.startsWith(prefix));
}

/** A finding about the file as a whole. */
export function wholeFile(path, message) {
    return { path, line: 0, column: 0, code: SYNTAX_ERROR, severity: 'error', message };
}

function finding(path, positions, message) {
    const { ruleId, fatal, line, column, endLine, endColumn, fix, severity } = message;
    const code = ruleId ?? (fatal ? SYNTAX_ERROR : DIRECTIVE);
    const hasEnd = Boolean(endLine && endColumn);
    return {
        path,
        line: line ?? 0,
        column: positions.column(line, column),
        endLine: hasEnd ? endLine : undefined,
        endColumn: hasEnd ? positions.column(endLine, endColumn) : undefined,
        code,
        severity: severity === 1 ? 'warning' : 'error',
        message: message.message,
        // The names of plugins' rules contain a `/`.
        url: ruleId && !ruleId.includes('/') ? `https://eslint.org/docs/latest/rules/${ruleId}` : undefined,
        fix: fix && fixed(path, positions, code, fix),
    };
}

function fixed(path, positions, code, { range, text }) {
    const [start, end] = positions.bytes(range);
    return {
        description: `the fix of ${code}`,
        safe: true,
        edits: [{ path, start: BigInt(start), end: BigInt(end), text }],
    };
}

function byPosition(left, right) {
    return left.line - right.line || left.column - right.column;
}
