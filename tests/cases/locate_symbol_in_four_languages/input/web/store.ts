export class Store {
  /** Reads. */
  async load(name: string): Promise<void> {}
}
