// Pushes (RFC 8620 §7): one connection to the server for all parts of a page that listen.

import type { States } from "./client";
import type { Session } from "./types";

interface Listener {
  types: string[];
  changed: (news: States) => void;
  alive: (up: boolean) => void;
}

/** A connection: types were added or left when ask is called. */
interface Connection {
  ask: () => void;
  close: () => void;
}

/** The connection is a WebSocket (RFC 8887), which costs the server less than an event source. It comes again by itself. */
export class Pushes {
  #listeners = new Set<Listener>();
  /** The states that were told, by account and type. */
  #told = new Map<string, string>();
  #connection: Connection | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #pause = 1000;
  readonly #session: () => Session;

  constructor(session: () => Session) {
    this.#session = session;
  }

  /**
   * Listens until the answer is called. changed is told the states of the types that are new; alive, that the connection opened or was
   * lost. Who joins an open connection is not told that it is, and reads after it joined.
   */
  listen(types: string[], changed: (news: States) => void, alive: (up: boolean) => void): () => void {
    const listener = { types, changed, alive };
    this.#listeners.add(listener);
    if (this.#connection) this.#connection.ask();
    else if (this.#listeners.size === 1) this.#connect();
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      clearTimeout(this.#again);
      this.#connection?.close();
      this.#connection = undefined;
      this.#told.clear();
    };
  }

  #types = () => [...new Set([...this.#listeners].flatMap((l) => l.types))];

  #up(isUp: boolean): void {
    if (isUp) this.#pause = 1000;
    for (const l of [...this.#listeners]) l.alive(isUp);
  }

  #lost = () => {
    this.#connection = undefined;
    this.#again = setTimeout(() => this.#connect(), this.#pause + Math.random() * 1000);
    this.#pause = Math.min(this.#pause * 2, 60_000);
    this.#up(false);
  };

  #connect(): void {
    const socket = this.#session().capabilities["urn:ietf:params:jmap:websocket"] as { url: string } | undefined;
    if (socket) this.#connection = this.#socket(socket.url);
  }

  #tell(pushed: States): void {
    const fresh = (account: string, type: string, state: string) => this.#told.get(account + type) !== state && this.#told.set(account + type, state);
    const news = Object.entries(pushed).map(([account, of]) => [account, Object.entries(of).filter(([type, state]) => fresh(account, type, state))] as const);
    for (const l of [...this.#listeners]) {
      const own = news.map(([account, of]) => [account, of.filter(([type]) => l.types.includes(type))] as const).filter(([, of]) => of[0]);
      if (own[0]) l.changed(Object.fromEntries(own.map(([account, of]) => [account, Object.fromEntries(of)])));
    }
  }

  #socket(url: string): Connection {
    const ws = new WebSocket(url, "jmap");
    const ask = () => {
      if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ "@type": "WebSocketPushEnable", dataTypes: this.#types() }));
    };
    ws.onopen = () => {
      ask();
      this.#up(true);
    };
    ws.onmessage = (e) => {
      const said = JSON.parse(e.data as string) as { "@type"?: string; changed: States };
      if (said["@type"] === "StateChange") this.#tell(said.changed);
    };
    ws.onclose = this.#lost;
    return {
      ask,
      close: () => {
        ws.onmessage = ws.onclose = null;
        ws.close();
      },
    };
  }
}
