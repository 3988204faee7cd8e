// Administrative verbs over the door /admin/verbs/: each is one of the server's table, with its arguments and its
// result. The server checks the right, and leaves a line of who did what.

import { signal } from "@preact/signals";
import { Offline, SignedOut } from "../jmap/client";
import { post, showPasskey, type Failed } from "../state/passkeys";
import { attempt, client, online, person, signedOut, type SignInProblem } from "../state/session";

/** The proofs that a person has here. A server that does not name them takes a password. */
export interface Has {
  password: boolean;
  passkey: boolean;
}

/** The server refused a verb: the kind is one that callers branch on, the text is for people. */
export class Refusal extends Error {
  constructor(readonly kind: string, text: string, readonly has: Has = { password: true, passkey: false }) {
    super(text);
  }
}

interface Line {
  progress?: { stage?: string; done?: number; text?: string };
  result?: unknown;
  error?: string;
  kind?: string;
  password?: boolean;
  passkey?: boolean;
}

async function once<T>(verb: string, args: object): Promise<T> {
  const response = await client.fetch(`/admin/verbs/${verb.replaceAll(" ", "/")}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(args),
  });
  online.value = true;
  const text = await response.text();
  let last: Line;
  try {
    // The answer is lines: how far it has come, then a result or an error.
    last = JSON.parse(text.trimEnd().split("\n").at(-1)!) as Line & { detail?: string };
  } catch {
    throw new Refusal(String(response.status), text.slice(0, 200) || response.statusText);
  }
  if (last.error !== undefined || !response.ok) throw new Refusal(last.kind ?? String(response.status), (last as { detail?: string }).detail ?? last.error ?? response.statusText, { password: last.password ?? true, passkey: last.passkey ?? false });
  return last.result as T;
}

/** Somebody must sign in again before what they want is done: the sheet that asks for it answers. */
export const again = signal<{ has: Has; done: (signedIn: boolean) => void } | null>(null);

/** Runs a verb. What changes something may ask for a fresh sign-in first. */
export async function run<T>(verb: string, args: object = {}): Promise<T> {
  try {
    return await once<T>(verb, args);
  } catch (e) {
    if (e instanceof Refusal && e.kind === "sign in" && (await new Promise<boolean>((done) => (again.value = { has: e.has, done })))) return once<T>(verb, args);
    if (e instanceof Offline) online.value = false;
    if (e instanceof SignedOut) signedOut();
    throw e;
  }
}

/** Proves at a path of the server that it is still the person of the session; undefined, or why not. The new session persists as this one does. */
async function confirm(path: string, proof: object): Promise<SignInProblem | undefined> {
  // Another page of this browser may have signed in again meanwhile: its session has another token.
  const now = await attempt(() => client.fetch("/auth/session", { headers: { Accept: "application/json" } }));
  if (!now) return { error: online.value ? "nobody" : "offline", detail: "" };
  if (!now.ok) return { error: String(now.status), detail: now.statusText };
  const who = (await now.json()) as { name: string; address?: string; csrf: string };
  if ((who.address || who.name) !== (person.value.address || person.value.name)) { // somebody else's session carries out nothing of this page
    signedOut();
    return { error: "nobody", detail: "" };
  }
  client.csrf = who.csrf;
  const answer = await post<{ csrf: string }>(path, { ...proof, again: true });
  if (!("done" in answer)) return answer;
  client.csrf = answer.done.csrf;
  return undefined;
}

/** Signs in again with the password; undefined, or why not. */
export const confirmSignIn = (password: string, code: string) => confirm("/auth/sign-in", { user: person.value.address || person.value.name, password, code });

/** Signs in again with a passkey; undefined, or why not. */
export async function confirmWithPasskey(): Promise<SignInProblem | Failed | undefined> {
  const shown = await showPasskey();
  return "credential" in shown ? confirm("/auth/passkey", shown) : shown;
}

export interface AppPassword {
  id: string;
  label: string;
  last4?: string;
  created?: string;
  secret?: string;
}

export interface Passkey {
  id: string;
  name: string;
  created: string;
  used?: string;
}

export interface User {
  id: string;
  name: string;
  short?: string;
  address?: string;
  aliases?: string[];
  names?: string[];
  roles?: string[];
  database?: string;
  quota?: number;
  warning?: number;
  size_limit?: number;
  disabled?: boolean;
  password: boolean;
  second_factor?: string;
  recovery_codes?: number;
  app_passwords?: AppPassword[];
  passkeys?: Passkey[];
  forward?: string[];
  forward_only?: boolean;
  vacation?: string;
  removed?: string;
}

export interface Group {
  id: string;
  name: string;
  address?: string;
  kind: string;
  description?: string;
  members?: string[];
  list?: string;
  removed?: string;
}

export interface Database {
  id: string;
  title: string;
  kind: string;
  owner?: string;
  state: string;
  reason?: string;
  created?: string;
  quota?: number;
  warning?: number;
  acknowledge?: string;
  fulltext?: "off";
  access?: string[];
  folders?: { name: string; messages: number; bytes: number }[];
}

export interface Queued {
  id: string;
  from: string;
  created: string;
  size: number;
  state?: string;
  reason?: string;
  to: string[];
  recipients?: { address: string; state: string; attempts: number; next?: string; reply?: string; host?: string }[];
  header?: string;
}

export interface TraceStep {
  time: string;
  event: string;
  from?: string;
  to: string;
  host?: string;
  secure?: string;
  reply?: string;
}

export interface SessionOf {
  id: string;
  person: string;
  created: string;
  used: string;
  ends: string;
  second_factor?: boolean;
  address?: string;
  user_agent?: string;
}

export interface Server {
  name: string;
  version: string;
  data: string;
  started?: string;
  elapsed?: string;
  doors?: { name: string; address: string; tls?: string }[];
  databases: number;
  users_active_15_min: number;
  transactions_per_minute: number;
  free_space?: number;
  memory: number;
  platform: string;
}

export interface Task {
  name: string;
  state: string;
  since?: string;
  runs: number;
  failed: number;
  crashes: number;
  progress?: string;
  last_run?: string;
  next_run?: string;
  took?: string;
  error?: string;
}

export interface Stat {
  name: string;
  kind: "counter" | "gauge" | "histogram" | "text";
  value: number;
  text?: string;
  unit?: string;
  help?: string;
  /** The time of a stored value. */
  time?: string;
}

export interface LogLine {
  seq: number;
  time: string;
  level: string;
  text: string;
  attrs?: string;
}

export interface Member {
  name: string;
  self?: boolean;
  state: string;
  alive: boolean;
  serving: boolean;
  restricted?: boolean;
  full?: boolean;
  busy?: boolean;
  site?: string;
  capacity?: number;
  availability_index: number;
  threshold?: number;
  users: number;
  databases: number;
  led: number;
  /** Nanoseconds, as lag. */
  probe_time: number;
  waiting: number;
  lag: number;
  error?: string;
}

export interface ClusterStatus {
  cluster: string;
  server: string;
  serving: boolean;
  members: Member[];
  databases: number;
  led: number;
  homeless: number;
  waiting: number;
  degraded: number;
  events?: ClusterEvent[];
}

/** Something that is wrong in the cluster as this server sees it. */
export interface ClusterEvent {
  kind: string;
  server?: string;
  cause: string;
  since: string;
  until?: string;
}

export interface ClusterDatabase {
  id: string;
  title: string;
  kind: string;
  home?: string;
  deleted?: boolean;
  replicas: { server: string; slot: number; state: string }[];
}

/** The load of a member, now and after the moves. */
export interface BalanceLoad {
  server: string;
  capacity: number;
  activity: number;
  activity_then: number;
  bytes: number;
  bytes_then: number;
}

export interface Balance {
  applied: boolean;
  servers: BalanceLoad[];
  moves: { database: string; title: string; what: "home" | "replica"; from: string; to: string; activity: number; bytes: number }[];
  silent?: string[];
}

export interface DNSRecord {
  domain: string;
  name: string;
  type: string;
  data: string;
  optional?: boolean;
  for: string;
  comment?: boolean;
}

export interface DNSCheck {
  state: "ok" | "missing" | "wrong" | "optional" | "unknown";
  name: string;
  type: string;
  found?: string;
  do?: string;
}

export interface Done {
  done: string;
}
