// The tool `greet`. Does not depend on the host or the bindings, so its tests run anywhere.

export class BlankName extends Error {}

/** The arguments, as `schemas/greet.input.json` describes them. */
export interface Greet {
    name: string;
}

/** The answer, as `schemas/greet.output.json` describes it. */
export interface Greeting {
    text: string;
}

export function greet({ name }: Greet): Greeting {
    const trimmed = name.trim();
    if (!trimmed) {
        throw new BlankName('the name is blank; say whom to greet');
    }
    return { text: `Hello, ${trimmed}!` };
}
