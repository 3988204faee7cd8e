// What the browser keeps: folders, recent mail and what waits to be told to the server. A browser that
// denies storage, or has none left, loses nothing but the ability to work offline: every use of this
// room falls back to memory, and says so once.

import { signal } from "@preact/signals";

const version = 1;
const stores = ["facts", "mailboxes", "rows", "messages", "lists", "outbox"] as const;
export type StoreName = (typeof stores)[number];

/** Storage is denied or full: offline work is off. */
export const storageDenied = signal(false);

let opened: Promise<IDBDatabase | null> | null = null;
let name = "";

/** Opens the database of one person; another's on the same browser is another database. */
export function openDatabase(user: string): void {
  name = `doublet:${user}`;
  opened = null;
}

function database(): Promise<IDBDatabase | null> {
  opened ??= new Promise((resolve) => {
    if (!name || typeof indexedDB === "undefined") return resolve(null);
    let request: IDBOpenDBRequest;
    try {
      request = indexedDB.open(name, version);
    } catch {
      storageDenied.value = true;
      return resolve(null);
    }
    request.onupgradeneeded = () => {
      for (const s of request.result.objectStoreNames) request.result.deleteObjectStore(s);
      for (const s of stores) request.result.createObjectStore(s);
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => {
      storageDenied.value = true;
      resolve(null);
    };
    request.onblocked = () => resolve(null);
  });
  return opened;
}

async function run<T>(store: StoreName, mode: IDBTransactionMode, work: (s: IDBObjectStore) => IDBRequest<T> | void): Promise<T | undefined> {
  const db = await database();
  if (!db) return undefined;
  return new Promise((resolve, reject) => {
    let request: IDBRequest<T> | void;
    const tx = db.transaction(store, mode);
    tx.oncomplete = () => resolve(request?.result);
    tx.onabort = tx.onerror = () => {
      storageDenied.value = true;
      mode === "readonly" ? resolve(undefined) : reject(tx.error);
    };
    request = work(tx.objectStore(store));
  });
}

export const get = <T>(store: StoreName, key: IDBValidKey) => run<T>(store, "readonly", (s) => s.get(key) as IDBRequest<T>);
export const all = <T>(store: StoreName) => run<T[]>(store, "readonly", (s) => s.getAll() as IDBRequest<T[]>);
export const keys = (store: StoreName) => run<IDBValidKey[]>(store, "readonly", (s) => s.getAllKeys());

/** Keeps a value; a cache that cannot keep it goes on without. */
export async function put(store: StoreName, key: IDBValidKey, value: unknown): Promise<void> {
  await run(store, "readwrite", (s) => void s.put(value, key)).catch(() => undefined);
}

/** Keeps a value, and says whether it is kept: for what must not be lost. */
export async function keep(store: StoreName, key: IDBValidKey, value: unknown): Promise<boolean> {
  if (!(await database())) return false;
  return run(store, "readwrite", (s) => void s.put(value, key)).then(() => true, () => false);
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
  if (name && typeof indexedDB !== "undefined") indexedDB.deleteDatabase(name);
  name = "";
}
