// The address books that the person may see and their contacts: all of them in memory, and kept in the browser.

import { batch, computed, signal } from "@preact/signals";
import { ref, refusalIn, Refused, whyOf, type States } from "../jmap/client";
import type { AddressBook, Card } from "../jmap/contacts";
import type { Call, Id } from "../jmap/types";
import { pictureOf } from "./cardform";
import { nameOf, sortKey } from "./cardname";
import * as db from "./db";
import { defer } from "./deferred";
import { flush, load } from "./outbox";
import { attempt, client, follow, home, offers, session } from "./session";

export const contactsCapability = "urn:ietf:params:jmap:contacts";

/** An address book with its account; owner is "" for one's own. */
export interface Book extends AddressBook {
  account: Id;
  owner: string;
}

/** A contact with its account, and how it is listed. */
export interface Contact {
  key: string;
  account: Id;
  card: Card;
  name: string;
  sort: string;
  /** The address of the picture; "" for none. */
  picture: string;
}

export const books = signal<Book[]>([]);
export const bookOf = (c: Contact): Book | undefined => books.value.find((b) => b.account === c.account && c.card.addressBookIds[b.id]);
export const mayChange = (c: Contact): boolean => !!bookOf(c)?.myRights.mayWrite;
export const defaultBook = computed(() => books.value.find((b) => b.isDefault && b.myRights.mayWrite) ?? books.value.find((b) => b.myRights.mayWrite));

const cards = signal<Map<string, Contact>>(new Map());
/** Contacts that are deleted and can be brought back. */
const hidden = signal<Set<string>>(new Set());
export const loaded = signal(false);

const contact = (account: Id, card: Card): Contact => ({ key: `${account}/${card.id}`, account, card, name: nameOf(card), sort: sortKey(card), picture: pictureOf(card, (id, type) => client.blobURL(account, id, type, "photo")) });

/** All of them, people and groups, by name. */
const all = computed(() => [...cards.value.values()].filter((c) => !hidden.value.has(c.key)).sort((a, b) => a.sort.localeCompare(b.sort)));
export const people = computed(() => all.value.filter((c) => c.card.kind !== "group"));
export const groups = computed(() => all.value.filter((c) => c.card.kind === "group"));
export const contactOf = (key: string): Contact | undefined => (hidden.value.has(key) ? undefined : cards.value.get(key));

const accounts = (): Id[] => Object.entries(session.value?.accounts ?? {}).filter(([, a]) => contactsCapability in a.accountCapabilities).map(([id]) => id).slice(0, 20);

interface Kept {
  books: Book[];
  cards: { account: Id; card: Card }[];
}

/** So many contacts are kept in the browser; more of them need the server. */
const mostKept = 5000;

/** Begins: what the browser keeps, then what the server says. */
export async function openContacts(): Promise<void> {
  const kept = await db.get<Kept>("facts", "contacts");
  if (kept) {
    batch(() => {
      books.value = kept.books;
      cards.value = new Map(kept.cards.map(({ account, card }) => contact(account, card)).map((c) => [c.key, c]));
    });
  }
  if (!offers(contactsCapability)) return void (loaded.value = true);
  await attempt(readAll).catch(() => undefined);
  loaded.value = true;
  listen();
  void load().then(flush);
}

const states = new Map<Id, string>();
const pageSize = 500;
const mostPages = 40;

async function readAll(): Promise<void> {
  await readBooks();
  const next = new Map<string, Contact>();
  for (const accountId of accounts()) {
    for (let page = 0; page < mostPages; page++) {
      const answers = await client.calls([
        ["ContactCard/query", { accountId, position: page * pageSize, limit: pageSize }, "q"],
        ["ContactCard/get", { accountId, "#ids": ref("q", "ContactCard/query", "/ids") }, "g"],
      ]);
      if (page === 0) states.set(accountId, answers.get("g")!["state"] as string);
      for (const card of answers.get("g")!["list"] as Card[]) next.set(`${accountId}/${card.id}`, contact(accountId, card));
      if ((answers.get("q")!["ids"] as Id[]).length < pageSize) break;
    }
  }
  cards.value = next;
  await keep();
}

async function readBooks(): Promise<void> {
  const ids = accounts();
  if (ids.length === 0) return;
  const answers = await client.calls(ids.map((accountId): Call => ["AddressBook/get", { accountId, ids: null }, accountId]));
  const out = ids.flatMap((account) => (answers.get(account)!["list"] as AddressBook[]).map((b): Book => ({ ...b, account, owner: account === home.value ? "" : (session.value?.accounts[account]?.name ?? "") })));
  books.value = out.sort((a, b) => a.owner.localeCompare(b.owner) || Number(b.isDefault) - Number(a.isDefault) || a.sortOrder - b.sortOrder || a.name.localeCompare(b.name));
}

const keep = () => db.put("facts", "contacts", { books: books.value, cards: [...cards.value.values()].slice(0, mostKept).map(({ account, card }) => ({ account, card })) } satisfies Kept);

/** Brings the contacts of an account up to date. */
async function catchUp(accountId: Id): Promise<void> {
  for (;;) {
    const answers = await client.calls([
      ["ContactCard/changes", { accountId, sinceState: states.get(accountId) ?? "" }, "c"],
      ["ContactCard/get", { accountId, "#ids": ref("c", "ContactCard/changes", "/created") }, "made"],
      ["ContactCard/get", { accountId, "#ids": ref("c", "ContactCard/changes", "/updated") }, "changed"],
    ]);
    const changes = answers.get("c")!;
    const next = new Map(cards.value);
    for (const id of changes["destroyed"] as Id[]) next.delete(`${accountId}/${id}`);
    for (const card of [...(answers.get("made")!["list"] as Card[]), ...(answers.get("changed")!["list"] as Card[])]) next.set(`${accountId}/${card.id}`, contact(accountId, card));
    cards.value = next;
    states.set(accountId, changes["newState"] as string);
    if (!changes["hasMoreChanges"]) break;
  }
}

let under: Promise<unknown> = Promise.resolve();

async function syncOnce(): Promise<void> {
  try {
    await readBooks();
    for (const id of accounts()) await catchUp(id);
    await keep();
  } catch (e) {
    if (!(e instanceof Refused) || e.type !== "cannotCalculateChanges") throw e;
    await readAll();
  }
}

/** Brings all that is shown up to date; one round after the other. Where the server refuses, it stays as it is. */
export const syncContacts = (): Promise<unknown> => (under = under.then(() => attempt(syncOnce).catch(() => undefined)));

let stop: (() => void) | null = null;

function listen(): void {
  stop?.();
  const news = (pushed: States) => Object.entries(pushed).some(([id, of]) => "AddressBook" in of || ("ContactCard" in of && of["ContactCard"] !== states.get(id)));
  stop = follow(["AddressBook", "ContactCard"], (pushed) => { if (news(pushed)) void syncContacts(); }, () => syncContacts().then(flush));
}

/** Why something was not done: the server's words; "" where it did not answer. */
export interface Failure {
  why: string;
}

export const isFailure = (x: object): x is Failure => "why" in x;

/** Changes objects of an account: cards, or address books. */
export async function setObjects(type: "ContactCard" | "AddressBook", account: Id, args: Record<string, unknown>): Promise<{ created: Record<string, { id: Id }> } | Failure> {
  try {
    const answer = await attempt(() => client.call(`${type}/set`, { accountId: account, ...args }));
    if (!answer) return { why: "" };
    const bad = refusalIn(answer);
    await syncContacts();
    return bad ? { why: whyOf(bad) } : { created: (answer["created"] as Record<string, { id: Id }> | null) ?? {} };
  } catch (e) {
    return { why: e instanceof Error ? e.message : String(e) };
  }
}

/** Deletes contacts of one account after some seconds. The answer takes it back; false: it is too late. */
export function removeContacts(list: Contact[], seconds: number, failed: (f: Failure) => void): () => Promise<boolean> {
  const keys = list.map((c) => c.key);
  hidden.value = new Set([...hidden.value, ...keys]);
  const show = () => (hidden.value = new Set([...hidden.value].filter((k) => !keys.includes(k))));
  const back = defer({ account: list[0]!.account, type: "ContactCard", destroy: list.map((c) => c.card.id) }, seconds, async (why) => {
    if (why) failed({ why });
    await syncContacts();
    show();
  });
  return async () => {
    const done = await back();
    if (done) show();
    return done;
  };
}
