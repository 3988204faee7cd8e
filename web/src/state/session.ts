// The person who is signed in, and the state of the connection.

import { computed, signal } from "@preact/signals";
import { Client, clockTolerance, Offline, SignedOut, type States } from "../jmap/client";
import type { Id, Session } from "../jmap/types";
import * as db from "./db";

export const client = new Client();

/** expired: the session ended while the client was at work; what is on the screen stays, and signing in goes on with it. */
export type Phase = "starting" | "signed-out" | "in" | "expired";
export const phase = signal<Phase>("starting");
export const online = signal(true);
export const person = signal<{ name: string; address: string; admin: boolean }>({ name: "", address: "", admin: false });
export const session = signal<Session | null>(null);
/** The account that is looked at: one's own, or one that is shared. */
export const account = signal<Id>("");

/** The error of this device's clock, in milliseconds; 0 for a small one. */
export const clockOff = signal(0);
/** The client that the server has is another than this one, which may miss parts of itself. */
export const outdated = signal(false);

/** The person's own account: what they write is sent from there, whatever they look at. */
export const home = computed(() => session.value?.primaryAccounts[mail] ?? "");

const mail = "urn:ietf:params:jmap:mail";

interface SignedIn {
  name: string;
  address?: string;
  csrf: string;
  admin?: boolean;
  server?: string;
  mates?: Mate[];
}

/** Another server where one can go on; url "" where its address is not known, or is this one's. */
export interface Mate {
  name: string;
  url?: string;
}

/** The server that answers, and those that would in its place. */
export const server = signal<{ name: string; mates: Mate[] }>({ name: "", mates: [] });
/** Told when another server answers than before: one of its cluster that goes on in its place. */
export const takenOver = signal<{ from: string; to: string } | null>(null);

/** Takes who answers, and notices that it is another. */
function answeredBy(who: SignedIn): void {
  const name = who.server ?? "";
  const from = server.value.name;
  server.value = { name, mates: (who.mates ?? []).filter((m) => !m.url || new URL(m.url).origin !== location.origin) };
  if (from && name && from !== name) takenOver.value = { from, to: name };
}

/** Asks who answers, after nobody did. */
async function whoAnswers(): Promise<void> {
  await attempt(async () => {
    const response = await client.fetch("/auth/session", { headers: { Accept: "application/json" } });
    if (response.ok) answeredBy((await response.json()) as SignedIn);
  });
}

let wasOnline = true;
online.subscribe((is) => {
  if (is && !wasOnline && phase.peek() === "in") void whoAnswers();
  wasOnline = is;
});

/** Begins: with the cookie that the browser has, or with what it keeps where the server cannot be reached. */
export async function start(): Promise<void> {
  const last = localStorageGet("doublet:last");
  try {
    const response = await client.fetch("/auth/session", { headers: { Accept: "application/json" } });
    if (!response.ok) throw new SignedOut(); // the account was disabled: signing in says so
    await welcome((await response.json()) as SignedIn);
  } catch (e) {
    if (e instanceof Offline && last) {
      const kept = JSON.parse(last) as { name: string; address: string; session: Session; server?: typeof server.value };
      if (kept.server) server.value = kept.server;
      db.openDatabase(kept.address || kept.name);
      client.session = kept.session;
      take(kept.session, kept.name, kept.address, false);
      online.value = false;
      return;
    }
    if (!(e instanceof SignedOut) && !(e instanceof Offline)) console.error(e);
    online.value = !(e instanceof Offline);
    phase.value = "signed-out";
  }
}

/** Ends the session with its reason; the screen keeps its contents. */
export function signedOut(): void {
  phase.value = phase.value === "in" || phase.value === "expired" ? "expired" : "signed-out";
}

async function welcome(who: SignedIn): Promise<void> {
  if (phase.value === "expired" && (who.address ?? who.name) !== (person.value.address || person.value.name)) {
    beginAgain(); // somebody else: what was on the screen is not theirs
    return;
  }
  client.csrf = who.csrf;
  answeredBy(who);
  db.openDatabase(who.address || who.name);
  const s = await openSession();
  take(s, who.name, who.address ?? s.username, who.admin ?? false);
  online.value = true;
  compareClocks();
  localStorageSet("doublet:last", JSON.stringify({ name: who.name, address: who.address ?? "", session: s, server: server.value }));
}

/** Reads the session object. While a mate is taking over it may not be there yet: the one from before is as good. */
async function openSession(): Promise<Session> {
  const before = client.session;
  for (let round = 0; ; round++) {
    try {
      return await client.open();
    } catch (e) {
      if (!(e instanceof Offline) || round >= 10) throw e;
      if (before) return before;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

function take(s: Session, name: string, address: string, admin: boolean): void {
  session.value = s;
  person.value = { name, address, admin };
  if (!account.value || !s.accounts[account.value]) account.value = s.primaryAccounts[mail] ?? Object.keys(s.accounts)[0] ?? "";
  phase.value = "in";
}

/** Compares the clocks, after an answer. */
function compareClocks(): void {
  const off = Math.abs(client.skew) > clockTolerance ? client.skew : 0;
  if (Math.abs(off - clockOff.value) > clockTolerance) clockOff.value = off;
}

export interface SignInProblem {
  error: string;
  detail: string;
}

/** Signs in; the answer is undefined, or why not. "second factor" asks for a code. */
export const signIn = (user: string, password: string, code: string, stay: boolean) => enter("/auth/sign-in", { user, password, code, keep: stay });

/** Signs in with what a path of the server asks for; the answer is undefined, or why not. */
export async function enter(path: string, proof: object): Promise<SignInProblem | undefined> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      credentials: "same-origin",
      body: JSON.stringify(proof),
    });
  } catch {
    return { error: "offline", detail: "" };
  }
  const answer = (await response.json().catch(() => ({}))) as SignedIn & SignInProblem;
  if (!response.ok) return { error: answer.error ?? String(response.status), detail: answer.detail ?? response.statusText };
  try {
    await welcome(answer);
  } catch (e) {
    if (e instanceof Offline) return { error: "offline", detail: "" };
    throw e;
  }
  return undefined;
}

/** Signs out and forgets all that this browser keeps. */
export async function signOut(): Promise<void> {
  await client
    .fetch("/auth/sign-out", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" })
    .catch(() => undefined);
  setBadge(0);
  await db.wipe();
  try {
    localStorage.removeItem("doublet:last");
  } catch {
    // denied: nothing was kept
  }
  beginAgain();
}

/** Loads the page anew at its first address: the one that it has may name what is another person's. */
function beginAgain(): void {
  history.replaceState(null, "", location.pathname.startsWith("/admin") ? "/admin/" : "/");
  location.reload();
}

/** Shows a number on the icon of the installed client, where the browser can; 0 for none. */
export function setBadge(n: number): void {
  void (navigator as { setAppBadge?: (n: number) => Promise<void> }).setAppBadge?.(n).catch(() => undefined);
}

/** Reports if the server has a capability. */
export const offers = (capability: string) => capability in (client.session?.capabilities ?? {});

/** Runs work that needs the server; what cannot be reached is shown, and answered with undefined. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    const out = await work();
    online.value = true;
    compareClocks();
    return out;
  } catch (e) {
    if (e instanceof Offline) {
      online.value = false;
      return undefined;
    }
    if (e instanceof SignedOut) {
      signedOut();
      return undefined;
    }
    throw e;
  }
}

/** A server that does not answer is asked again after so many milliseconds. */
export const retryPause = 4000;

/** After how many milliseconds a server that refused for now is asked the nth time, where it wants to be asked after so many at the earliest. */
export const pauseBefore = (n: number, asked: number) => asked + Math.min(60_000, 1000 * 2 ** n) * (0.75 + Math.random() / 2);

/** The server answers, and knows who asks. */
export const reachable = computed(() => online.value && phase.value === "in");

/**
 * A reader that reads again while read answers false, after a pause that is as long as the server asks for at least: no push may come
 * that asks for the same. While the server does not answer or the session is over, it waits for the end of that.
 */
export function persistent<K = void>(read: (known?: K) => Promise<boolean>): (known?: K) => Promise<boolean> {
  let refused = 0;
  let again: ReturnType<typeof setTimeout> | undefined;
  let owed = false;
  async function ask(known?: K): Promise<boolean> {
    owed = false;
    const told = await read(known);
    clearTimeout(again);
    if (told) refused = 0;
    else if (reachable.peek()) again = setTimeout(() => void ask(), pauseBefore(refused++, client.pause));
    else owed = true;
    return told;
  }
  reachable.subscribe((is) => { if (is && owed) void ask(); });
  return ask;
}

/**
 * Listens for new states of types until the answer is called. renew reads what changed while nobody listened: when the stream opens or
 * ends, and again and again while the server does not answer, but no earlier than the server asks for.
 */
export function follow(types: string[], changed: (news: States) => void, renew: () => unknown): () => void {
  let retry: ReturnType<typeof setInterval> | undefined;
  const end = client.pushes.listen(types, changed, (up) => {
    if (!up && !online.peek()) return;
    if (!up) online.value = false; // the server may go on, or a mate of it: the next answer tells
    renew();
  });
  const forget = online.subscribe((is) => {
    clearInterval(retry);
    retry = is ? undefined : setInterval(() => client.pause || renew(), retryPause);
  });
  return () => {
    end();
    forget();
    clearInterval(retry);
  };
}

export function localStorageGet(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function localStorageSet(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    db.storageDenied.value = true;
  }
}
