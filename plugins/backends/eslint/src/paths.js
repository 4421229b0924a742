// Resolves paths of requests, which are relative to the workspace and inside it.

import { Invalid } from './invalid.js';

/** Normalizes a path; the workspace itself is an empty string. */
export function inside(path) {
    const outside = () => new Invalid(`the path '${path}' is outside of the workspace`);
    if (path.startsWith('/')) {
        throw outside();
    }
    const names = [];
    for (const name of path.split('/')) {
        if (name === '..') {
            if (names.pop() === undefined) {
                throw outside();
            }
        } else if (name !== '' && name !== '.') {
            names.push(name);
        }
    }
    return names.join('/');
}

/** The directories that may have the configuration: the common parent of all paths, and its parents. */
export function directoriesAbove(paths) {
    let common = paths[0].split('/');
    for (const path of paths.slice(1)) {
        const names = path.split('/');
        const differs = common.findIndex((name, index) => name !== names[index]);
        common = differs < 0 ? common : common.slice(0, differs);
    }
    const directories = common.map((_, index) => common.slice(0, index + 1).join('/')).reverse();
    return [...new Set([...directories, ''])];
}

export function join(directory, name) {
    return directory === '' ? name : `${directory}/${name}`;
}
