/** The request or a configuration file is wrong. */
export class Invalid extends Error {}
