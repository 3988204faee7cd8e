// Passkeys (WebAuthn): converts the messages between the JSON of the server and the bytes of the browser's authenticators.

import { client, enter, signedOut, type SignInProblem } from "./session";

export interface Passkey {
  id: string;
  name: string;
  created: string;
  used?: string;
}

/**
 * The reason for which the browser returns no credential: the person cancelled, the device has a passkey of the account already, or the
 * address is not one of the host of the passkeys.
 */
export interface Failed {
  why: "cancelled" | "have" | "elsewhere";
}

interface Descriptor {
  id: string;
  type: "public-key";
}
interface RequestJSON {
  publicKey: { challenge: string; rpId: string };
  /** The address whose pages may use them: passkeys of its host are refused elsewhere. */
  origin: string;
}
interface CreationJSON {
  publicKey: { challenge: string; rp: { id: string; name: string }; user: { id: string; name: string; displayName: string }; excludeCredentials?: Descriptor[] };
}

const headers = () => ({ "Content-Type": "application/json", Accept: "application/json", "X-CSRF-Token": client.csrf });

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/-/gu, "+").replace(/_/gu, "/")), (c) => c.charCodeAt(0));
}

function text(buffer: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/gu, "-").replace(/\//gu, "_").replace(/=+$/u, "");
}

/** The JSON of a credential as WebAuthn §5.1 has it. Safari before 18.4 and password managers have no toJSON. */
function json(c: PublicKeyCredential): object {
  const response: Record<string, string> = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    const value = (c.response as unknown as Record<string, unknown>)[name];
    if (value instanceof ArrayBuffer) response[name] = text(value);
  }
  return { id: c.id, rawId: text(c.rawId), type: c.type, response, clientExtensionResults: {} };
}

const why = (e: unknown): Failed => {
  const name = e instanceof DOMException ? e.name : "";
  return { why: name === "InvalidStateError" ? "have" : name === "SecurityError" ? "elsewhere" : "cancelled" };
};

/** The ways to sign in besides a password. */
interface Ways {
  passkey?: RequestJSON;
  openid?: { name: string; path: string };
}

/** Reads the ways to sign in; undefined: the server did not say. */
export async function waysToSignIn(): Promise<Ways | undefined> {
  const response = await fetch("/auth/ways", { headers: { Accept: "application/json" }, credentials: "same-origin" }).catch(() => undefined);
  return response?.ok ? ((await response.json().catch(() => undefined)) as Ways | undefined) : undefined;
}

/** The host that passkeys are bound to, undefined where this browser or this address has none. */
export const passkeyHost = (ways: Ways | undefined): string | undefined => ("PublicKeyCredential" in window && ways?.passkey?.origin === location.origin ? ways.passkey.publicKey.rpId : undefined);

/** Has a person show the passkey that they choose; the credential as JSON, or why there is none. */
export async function showPasskey(): Promise<{ credential: object } | SignInProblem | Failed> {
  const options = (await waysToSignIn())?.passkey;
  if (!options) return { error: "offline", detail: "" };
  let credential: Credential | null;
  try {
    credential = await navigator.credentials.get({ publicKey: { ...options.publicKey, challenge: bytes(options.publicKey.challenge) } });
  } catch (e) {
    return why(e);
  }
  return credential ? { credential: json(credential as PublicKeyCredential) } : { why: "cancelled" };
}

/** Signs in with the passkey that a person chooses; undefined, or why not. */
export async function signInWithPasskey(keep: boolean): Promise<SignInProblem | Failed | undefined> {
  const shown = await showPasskey();
  return "credential" in shown ? enter("/auth/passkey", { ...shown, keep }) : shown;
}

/** Posts to the account; the answer, or why not. */
export async function post<T>(path: string, body: object): Promise<{ done: T } | SignInProblem> {
  const response = await fetch(path, { method: "POST", headers: headers(), credentials: "same-origin", body: JSON.stringify(body) }).catch(() => undefined);
  if (!response) return { error: "offline", detail: "" };
  const answer = (await response.json().catch(() => ({}))) as T & Partial<SignInProblem>;
  if (response.ok) return { done: answer };
  if (answer.error === "nobody") signedOut();
  return { error: answer.error ?? String(response.status), detail: answer.detail ?? response.statusText };
}

/** The person's passkeys. */
export async function readPasskeys(): Promise<Passkey[]> {
  const response = await client.fetch("/auth/passkeys", { headers: { Accept: "application/json" } });
  return response.ok ? ((await response.json()) as Passkey[]) : [];
}

/** Makes a passkey on this device or another and adds it; undefined, or why not. */
export async function addPasskey(name: string, password: string, code: string): Promise<SignInProblem | Failed | undefined> {
  const begun = await post<CreationJSON>("/auth/passkeys/begin", { password, code });
  if (!("done" in begun)) return begun;
  const o = begun.done.publicKey;
  let credential: Credential | null;
  try {
    credential = await navigator.credentials.create({
      publicKey: {
        ...(o as unknown as PublicKeyCredentialCreationOptions), challenge: bytes(o.challenge), user: { ...o.user, id: bytes(o.user.id) },
        excludeCredentials: (o.excludeCredentials ?? []).map((c) => ({ type: c.type, id: bytes(c.id) })),
      },
    });
  } catch (e) {
    return why(e);
  }
  if (!credential) return { why: "cancelled" };
  const added = await post("/auth/passkeys/add", { name, credential: json(credential as PublicKeyCredential) });
  return "done" in added ? undefined : added;
}

/** Removes a passkey; undefined, or why not. */
export async function removePasskey(id: string, password: string, code: string): Promise<SignInProblem | undefined> {
  const removed = await post("/auth/passkeys/remove", { id, password, code });
  return "done" in removed ? undefined : removed;
}
