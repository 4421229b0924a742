// The tool `greet`. Does not depend on the host or the bindings, so its tests run anywhere.

export class BlankName extends Error {}

export function greet({ name }) {
    const trimmed = name.trim();
    if (!trimmed) {
        throw new BlankName('the name is blank; say whom to greet');
    }
    return { text: `Hello, ${trimmed}!` };
}
