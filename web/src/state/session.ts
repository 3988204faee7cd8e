// Who is signed in, and whether the server answers.

import { signal } from "@preact/signals";
import { Client, Offline, SignedOut } from "../jmap/client";
import type { Id, Session } from "../jmap/types";
import * as db from "./db";

export const client = new Client();

export type Phase = "starting" | "signed-out" | "in";
export const phase = signal<Phase>("starting");
export const online = signal(true);
export const person = signal<{ name: string; address: string; admin: boolean }>({ name: "", address: "", admin: false });
export const session = signal<Session | null>(null);
/** The account that is looked at: one's own, or one that is shared. */
export const account = signal<Id>("");

const mail = "urn:ietf:params:jmap:mail";

interface SignedIn {
  name: string;
  address?: string;
  csrf: string;
  admin?: boolean;
}

/** Begins: with the cookie that the browser has, or with what it keeps where the server cannot be reached. */
export async function start(): Promise<void> {
  const last = localStorageGet("doublet:last");
  try {
    const response = await client.fetch("/auth/session", { headers: { Accept: "application/json" } });
    if (!response.ok) throw new SignedOut(); // the account was disabled: signing in says so
    await welcome((await response.json()) as SignedIn);
  } catch (e) {
    if (e instanceof Offline && last) {
      const kept = JSON.parse(last) as { name: string; address: string; session: Session };
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

async function welcome(who: SignedIn): Promise<void> {
  client.csrf = who.csrf;
  db.openDatabase(who.address || who.name);
  const s = await client.open();
  take(s, who.name, who.address ?? s.username, who.admin ?? false);
  online.value = true;
  localStorageSet("doublet:last", JSON.stringify({ name: who.name, address: who.address ?? "", session: s }));
}

function take(s: Session, name: string, address: string, admin: boolean): void {
  session.value = s;
  person.value = { name, address, admin };
  if (!account.value || !s.accounts[account.value]) account.value = s.primaryAccounts[mail] ?? Object.keys(s.accounts)[0] ?? "";
  phase.value = "in";
}

export interface SignInProblem {
  error: string;
  detail: string;
}

/** Signs in; the answer is undefined, or why not. "second factor" asks for a code. */
export async function signIn(user: string, password: string, code: string, stay: boolean): Promise<SignInProblem | undefined> {
  let response: Response;
  try {
    response = await fetch("/auth/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      credentials: "same-origin",
      body: JSON.stringify({ user, password, code, keep: stay }),
    });
  } catch {
    return { error: "offline", detail: "" };
  }
  const answer = (await response.json().catch(() => ({}))) as SignedIn & SignInProblem;
  if (!response.ok) return { error: answer.error ?? String(response.status), detail: answer.detail ?? response.statusText };
  await welcome(answer);
  return undefined;
}

/** Signs out and forgets all that this browser keeps. */
export async function signOut(): Promise<void> {
  await client
    .fetch("/auth/sign-out", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" })
    .catch(() => undefined);
  await db.wipe();
  try {
    localStorage.removeItem("doublet:last");
  } catch {
    // denied: nothing was kept
  }
  location.hash = "";
  location.reload();
}

/** Runs work that needs the server; what cannot be reached is shown, and answered with undefined. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    const out = await work();
    online.value = true;
    return out;
  } catch (e) {
    if (e instanceof Offline) {
      online.value = false;
      return undefined;
    }
    if (e instanceof SignedOut) {
      phase.value = "signed-out";
      return undefined;
    }
    throw e;
  }
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
