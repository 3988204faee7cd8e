// Changes of the person until the server has answered: what is read meanwhile may be older, and does not undo them on the screen.

export class Meanwhile<T extends object> {
  readonly #set = new Map<string, Partial<T>>();

  /** An object that was read, as the person has changed it. */
  of = (key: string, read: T): T => ({ ...read, ...this.#set.get(key) });

  /** Keeps a change while work tells the server. A later one of the same object stays until its own end. */
  async during<R>(key: string, change: Partial<T>, work: () => Promise<R>): Promise<R> {
    const mine = { ...this.#set.get(key), ...change };
    this.#set.set(key, mine);
    try {
      return await work();
    } finally {
      if (this.#set.get(key) === mine) this.#set.delete(key);
    }
  }
}
