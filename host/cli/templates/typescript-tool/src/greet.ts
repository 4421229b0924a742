// The tool `greet`. Knows neither the host nor the bindings, so that it is tested anywhere.

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
    const somebody = name.trim();
    if (!somebody) {
        throw new BlankName('the name is blank; say whom to greet');
    }
    return { text: `Hello, ${somebody}!` };
}
