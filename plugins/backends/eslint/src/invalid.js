/** The error for an invalid request or configuration file. */
export class Invalid extends Error {}
