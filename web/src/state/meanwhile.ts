// Changes of the person until the server has answered: what is read meanwhile may be older, and does not undo them on the screen.

export class Meanwhile<T extends object> {
  readonly #open = new Map<string, Partial<T>[]>();
  readonly #last = new Map<string, Promise<unknown>>();

  /** An object that was read, as the person has changed it. */
  of = (key: string, read: T): T => Object.assign({}, read, ...(this.#open.get(key) ?? []));

  /** Keeps a change while work tells the server: behind the work of those before it of the same object, as the person made them. */
  async during<R>(key: string, change: Partial<T>, work: () => Promise<R>): Promise<R> {
    this.#open.set(key, [...(this.#open.get(key) ?? []), change]);
    const mine = (this.#last.get(key) ?? Promise.resolve()).then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      this.#open.set(key, this.#open.get(key)!.filter((c) => c !== change));
      if (this.#last.get(key) === mine) {
        this.#open.delete(key);
        this.#last.delete(key);
      }
    }
  }
}
