// The data that the browser keeps: folders, recent mail and actions that wait for the server. A browser that
// denies storage, or has none left, loses nothing but the ability to work offline: every use of this
// room falls back to memory, and the client says so.

import { signal } from "@preact/signals";

const version = 1;
const stores = ["facts", "mailboxes", "rows", "messages", "lists", "outbox"] as const;
export type StoreName = (typeof stores)[number];

/** Copies of what the server has: the first to go where there is no room. */
const copies: StoreName[] = ["messages", "rows", "lists"];

/** Storage is denied or full: offline work is off. */
export const storageDenied = signal(false);

let opened: Promise<IDBDatabase | null> | null = null;
let name = "";

/** Opens the database of one person; another's on the same browser is another database. */
export function openDatabase(user: string): void {
  if (name === `doublet:${user}`) return;
  name = `doublet:${user}`;
  opened = null;
}

/** The longest time for opening it: a broken browser never answers. */
const patience = 5000;

function database(): Promise<IDBDatabase | null> {
  opened ??= new Promise((resolve) => {
    let late: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const end = (db: IDBDatabase | null) => {
      clearTimeout(late);
      over = true;
      if (!db) storageDenied.value = true;
      resolve(db);
    };
    const deny = () => end(null);
    if (!name) return resolve(null);
    if (typeof indexedDB === "undefined") return deny();
    let request: IDBOpenDBRequest;
    try {
      request = indexedDB.open(name, version);
    } catch {
      return deny();
    }
    late = setTimeout(deny, patience);
    request.onupgradeneeded = () => {
      // The data stays: mail that waits to be sent is among it.
      for (const s of stores) if (!request.result.objectStoreNames.contains(s)) request.result.createObjectStore(s);
    };
    request.onsuccess = () => {
      const db = request.result;
      if (over) return db.close();
      db.onversionchange = () => {
        db.close();
        opened = null;
      };
      db.onclose = () => (opened = null); // the browser took it away
      end(db);
    };
    request.onerror = request.onblocked = deny;
  });
  return opened;
}

function transact<T>(db: IDBDatabase, list: StoreName[], mode: IDBTransactionMode, work: (tx: IDBTransaction) => IDBRequest<T> | void): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const tx = db.transaction(list, mode);
    const request = work(tx);
    tx.oncomplete = () => resolve(request?.result);
    tx.onabort = tx.onerror = () => reject(tx.error ?? request?.error);
  });
}

/** Runs one transaction. Where there is no room, copies of what the server has give way to what only this browser has. */
async function run<T>(store: StoreName, mode: IDBTransactionMode, work: (s: IDBObjectStore, tx: IDBTransaction) => IDBRequest<T> | void, ...more: StoreName[]): Promise<T | undefined> {
  for (let round = 0; ; round++) {
    const db = await database();
    if (!db) return undefined;
    try {
      return await transact(db, [store, ...more], mode, (tx) => work(tx.objectStore(store), tx));
    } catch (e) {
      const why = e instanceof DOMException ? e.name : "";
      if (round === 0 && why === "InvalidStateError") {
        opened = null; // it was closed meanwhile
        continue;
      }
      if (round === 0 && why === "QuotaExceededError" && !copies.includes(store)) {
        await transact(db, copies, "readwrite", (tx) => copies.forEach((c) => tx.objectStore(c).clear())).catch(() => undefined);
        continue;
      }
      storageDenied.value = true;
      if (mode === "readonly") return undefined;
      throw e;
    }
  }
}

export const get = <T>(store: StoreName, key: IDBValidKey) => run<T>(store, "readonly", (s) => s.get(key) as IDBRequest<T>);
export const all = <T>(store: StoreName) => run<T[]>(store, "readonly", (s) => s.getAll() as IDBRequest<T[]>);
export const keys = (store: StoreName) => run<IDBValidKey[]>(store, "readonly", (s) => s.getAllKeys());

/** Keeps a value; a cache that cannot keep it goes on without. */
export async function put(store: StoreName, key: IDBValidKey, value: unknown): Promise<void> {
  await run(store, "readwrite", (s) => void s.put(value, key)).catch(() => undefined);
}

/** The place of a value. */
export interface Place {
  store: StoreName;
  key: IDBValidKey;
}

/** Keeps a value that must not be lost, and reports if it is kept. What stands instead of it is removed in the same transaction. */
export async function keep(store: StoreName, key: IDBValidKey, value: unknown, instead?: Place): Promise<boolean> {
  if (!(await database())) return false;
  return run(store, "readwrite", (s, tx) => {
    s.put(value, key);
    if (instead) tx.objectStore(instead.store).delete(instead.key);
  }, ...(instead ? [instead.store] : [])).then(() => true, () => false);
}

export async function putAll(store: StoreName, entries: [IDBValidKey, unknown][]): Promise<void> {
  if (entries.length === 0) return;
  await run(store, "readwrite", (s) => {
    for (const [k, v] of entries) s.put(v, k);
  }).catch(() => undefined);
}

export async function remove(store: StoreName, ...which: IDBValidKey[]): Promise<void> {
  if (which.length === 0) return;
  await run(store, "readwrite", (s) => {
    for (const k of which) s.delete(k);
  }).catch(() => undefined);
}

/** Forgets everything that is kept of the person: at signing out. */
export async function wipe(): Promise<void> {
  const db = await database();
  db?.close();
  opened = null;
  try {
    if (name) indexedDB.deleteDatabase(name);
  } catch {
    // denied: nothing was kept
  }
  name = "";
}
