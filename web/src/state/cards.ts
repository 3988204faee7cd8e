// The address books that the person may see and their contacts: all of them in memory, and kept in the browser.

import { batch, computed, signal } from "@preact/signals";
import { ref, refusalIn, Refused, whyOf, type States } from "../jmap/client";
import type { AddressBook, Card } from "../jmap/contacts";
import type { Call, Id } from "../jmap/types";
import { pictureOf } from "./cardform";
import { nameOf, sortKey } from "./cardname";
import * as db from "./db";
import { defer } from "./deferred";
import { amend, applied, keyNow, newID, onRead, overlay, perform, presumed, takeCreation, type Standing } from "./objects";
import { flush, intend, load } from "./outbox";
import { attempt, client, follow, home, offers, persistent, session } from "./session";

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
  /** It is shown as the person changed it, which the server does not know yet; "" for no change. */
  standing: Standing | "";
}

export const books = signal<Book[]>([]);
export const bookOf = (c: Contact): Book | undefined => books.value.find((b) => b.account === c.account && c.card.addressBookIds[b.id]);
export const mayChange = (c: Contact): boolean => !!bookOf(c)?.myRights.mayWrite;
export const defaultBook = computed(() => books.value.find((b) => b.isDefault && b.myRights.mayWrite) ?? books.value.find((b) => b.myRights.mayWrite));

const cards = signal<Map<string, Contact>>(new Map());
const changed = overlay<Card>("ContactCard");
export const loaded = signal(false);

const contact = (account: Id, card: Card, standing: Contact["standing"] = ""): Contact => ({ standing, key: `${account}/${card.id}`, account, card, name: nameOf(card), sort: sortKey(card), picture: pictureOf(card, (id, type) => client.blobURL(account, id, type, "photo")) });

/** All of them by key, as the person has changed them. */
const shown = computed(() => {
  if (changed.value.size === 0) return cards.value;
  const out = new Map(cards.value);
  const uids = new Set([...out.values()].map((c) => `${c.account}/${newID(c.card.uid)}`));
  for (const [key, { object, standing }] of changed.value) {
    if (!object) out.delete(key);
    else if (!uids.has(key)) out.set(key, contact(key.slice(0, key.indexOf("/")), object, standing)); // a new one may be read before its answer comes
  }
  return out;
});

/** All of them, people and groups, by name. */
const all = computed(() => [...shown.value.values()].sort((a, b) => a.sort.localeCompare(b.sort)));
export const people = computed(() => all.value.filter((c) => c.card.kind !== "group"));
export const groups = computed(() => all.value.filter((c) => c.card.kind === "group"));
export const contactOf = (key: string): Contact | undefined => shown.value.get(key) ?? shown.value.get(keyNow(key));

const accounts = (): Id[] => Object.entries(session.value?.accounts ?? {}).filter(([, a]) => contactsCapability in a.accountCapabilities).map(([id]) => id).slice(0, 20);

interface Kept {
  books: Book[];
  cards: { account: Id; card: Card }[];
}

/** So many contacts are kept in the browser; more of them need the server. */
const mostKept = 5000;

/** The contacts that the browser keeps. */
export const keptContacts = () => db.get<Kept>("facts", "contacts");

/** Begins: what the browser keeps, then what the server says. */
export async function openContacts(): Promise<void> {
  onRead("ContactCard", syncOne);
  await load();
  const kept = await keptContacts();
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
  void flush();
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

let under: Promise<boolean> = Promise.resolve(true);

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

const syncOne = (): Promise<boolean> => (under = under.then(() => attempt(() => syncOnce().then(() => true)).catch(() => false)).then((x) => x ?? false));

/** Brings all that is shown up to date; one round after the other. Where the server refuses, it stays as it is. */
export const syncContacts = persistent(syncOne);

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

/** Changes address books of an account. */
export async function setBooks(account: Id, args: Record<string, unknown>): Promise<Failure | undefined> {
  try {
    const answer = await attempt(() => client.call("AddressBook/set", { accountId: account, ...args }));
    if (!answer) return { why: "" };
    const bad = refusalIn(answer);
    await syncContacts();
    return bad && { why: whyOf(bad) };
  } catch (e) {
    return { why: e instanceof Error ? e.message : String(e) };
  }
}

/** Creates a card, and returns its key. */
export async function createCard(account: Id, card: Omit<Card, "id">): Promise<string | Failure> {
  const id = newID(card.uid);
  const done = await perform({ account, type: "ContactCard", create: { c: card }, shows: [[`${account}/${id}`, { ...card, id }]], title: nameOf({ ...card, id }) });
  return "why" in done ? done : `${account}/${done.created["c"]?.id ?? id}`;
}

/** Changes cards of one account, each by its own patch (RFC 8620 §5.3). */
export async function changeCards(list: { of: Contact; patch: Record<string, unknown> }[]): Promise<Failure | undefined> {
  const account = list[0]!.of.account;
  const left: typeof list = [];
  for (const x of list) if (!(await amend(account, x.of.card.id, x.patch))) left.push(x);
  if (left.length === 0) return undefined;
  const update = Object.fromEntries(left.map(({ of, patch }) => [of.card.id, patch]));
  const was = presumed("ContactCard", update, [], new Map(left.map(({ of }) => [of.card.id, of.card])));
  const shows = left.map(({ of, patch }): [string, Card] => [of.key, applied(of.card, patch)]);
  const done = await perform({ account, type: "ContactCard", update, was, shows, title: left[0]!.of.name });
  return "why" in done ? done : undefined;
}

/** Deletes contacts of one account after some seconds. The answer takes it back; false: it is too late. */
export async function removeContacts(list: Contact[], seconds: number, failed: (f: Failure) => void): Promise<() => Promise<boolean>> {
  const account = list[0]!.account;
  const creations = await Promise.all(list.map((c) => takeCreation(account, c.card.id)));
  const left = list.filter((_, i) => !creations[i]);
  const destroy = left.map((c) => c.card.id);
  const was = presumed("ContactCard", {}, destroy, new Map(left.map((c) => [c.card.id, c.card])));
  const shows = left.map((c): [string, null] => [c.key, null]);
  const back = left.length > 0 ? defer({ account, type: "ContactCard", destroy, was, shows, title: left[0]!.name }, seconds, (why) => failed({ why })) : () => Promise.resolve(true);
  return async () => {
    for (const creation of creations) if (creation) await intend(creation);
    return back();
  };
}
