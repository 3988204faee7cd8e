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

/** A connection is a WebSocket (RFC 8887) where the server has one, which costs it least, else an event source. It comes again by itself. */
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
    const socket = this.#session().capabilities["urn:ietf:params:jmap:websocket"] as { url: string; supportsPush: boolean } | undefined;
    this.#connection = socket?.supportsPush ? this.#socket(socket.url) : this.#events();
  }

  #tell(pushed: States): void {
    const news: States = {};
    for (const [account, of] of Object.entries(pushed)) {
      for (const [type, state] of Object.entries(of)) {
        const key = `${account} ${type}`;
        if (this.#told.get(key) === state) continue;
        this.#told.set(key, state);
        (news[account] ??= {})[type] = state;
      }
    }
    for (const l of [...this.#listeners]) {
      const own = Object.entries(news).map(([account, of]) => [account, Object.fromEntries(Object.entries(of).filter(([type]) => l.types.includes(type)))] as const);
      const some = own.filter(([, of]) => Object.keys(of).length > 0);
      if (some.length > 0) l.changed(Object.fromEntries(some));
    }
  }

  #socket(url: string): Connection {
    const ws = new WebSocket(url, "jmap");
    let over = false;
    const ask = () => {
      if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ "@type": "WebSocketPushEnable", dataTypes: this.#types() }));
    };
    ws.onopen = () => {
      ask();
      this.#up(true);
    };
    ws.onmessage = (e) => {
      const said = JSON.parse(String(e.data)) as { "@type"?: string; changed: States };
      if (!over && said["@type"] === "StateChange") this.#tell(said.changed);
    };
    ws.onclose = () => {
      if (!over) this.#lost();
    };
    return {
      ask,
      close: () => {
        over = true;
        ws.close();
      },
    };
  }

  #events(): Connection {
    const open = () => {
      const source = new EventSource(this.#session().eventSourceUrl.replace("{types}", this.#types().join(",")).replace("{closeafter}", "no").replace("{ping}", "60"));
      source.onopen = () => this.#up(true);
      source.onerror = () => {
        if (source.readyState === EventSource.CLOSED) this.#lost();
        else this.#up(false);
      };
      source.addEventListener("state", (e) => this.#tell((JSON.parse(String((e as MessageEvent).data)) as { changed: States }).changed));
      return source;
    };
    let source = open();
    return {
      // Its types stand in its address.
      ask: () => {
        source.close();
        source = open();
      },
      close: () => source.close(),
    };
  }
}
