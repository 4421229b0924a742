// The tool `greet`. Knows neither the host nor the bindings, so that it is tested anywhere.

export class BlankName extends Error {}

export function greet({ name }) {
    const somebody = name.trim();
    if (!somebody) {
        throw new BlankName('the name is blank; say whom to greet');
    }
    return { text: `Hello, ${somebody}!` };
}
