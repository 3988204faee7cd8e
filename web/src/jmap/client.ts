// The JMAP client: a session, calls that go together in one request, uploads with progress, pushes.

import { Pushes } from "./pushes";
import type { Call, Id, Session, SetError } from "./types";

/** New states of types, by account (RFC 8620 §7.1). */
export type States = Record<Id, Record<string, string>>;

/** The server could not be reached: the work goes on offline. */
export class Offline extends Error {
  constructor() {
    super("the server cannot be reached");
  }
}

/** The sign-in has ended: the person signs in again. */
export class SignedOut extends Error {
  constructor() {
    super("signed out");
  }
}

/** The server refused a request or a call, in its own words. */
export class Refused extends Error {
  /** @param later where the same may well be done later: after how many milliseconds at least. */
  constructor(readonly type: string, description?: string, readonly later?: number) {
    super(description || type);
  }
}

/** The longest that a server may have somebody wait, in milliseconds. */
const longestWait = 10 * 60_000;

/**
 * Reports if a status is of a server that is in trouble or has too much to do, and not of the request: then after how many
 * milliseconds it wants to be asked again (Retry-After, RFC 9110 §10.2.3), 0 where it does not say.
 */
export function comeAgain(status: number, retryAfter: string | null): number | undefined {
  if (![408, 425, 429].includes(status) && (status < 500 || status === 501 || status === 505)) return undefined;
  const seconds = /^\d+$/u.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : Date.parse(retryAfter ?? "") - Date.now();
  return Math.min(Math.max(seconds || 0, 0), longestWait);
}

/** The difference between two clocks that matters to nobody, in milliseconds. */
export const clockTolerance = 5 * 60_000;

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

/** The first refusal in the answer to a /set call. */
export const refusalIn = (answer: Record<string, any>): SetError | undefined =>
  Object.values({ ...answer["notCreated"], ...answer["notUpdated"], ...answer["notDestroyed"] } as Record<string, SetError>)[0];

/** The reason of a refusal, for people. */
export const whyOf = (e: SetError): string => e.description ?? e.type;

/** A result reference (RFC 8620 §3.7). */
export function ref(resultOf: string, name: string, path: string) {
  return { resultOf, name, path };
}

/** A key as a part of the path of a patch (RFC 6901). */
export const pointer = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1");

/** Why a request or its answer broke off: the caller gave it up, or the server is not reached, as when the page is left. */
const brokenOff = (e: unknown, signal?: AbortSignal | null): unknown => (signal?.aborted ? e : new Offline());

const json = <T>(response: Response, signal?: AbortSignal): Promise<T> => response.json().catch((e: unknown) => { throw brokenOff(e, signal); });

export class Client {
  session: Session | null = null;
  /** The lead of the server's clock over this device's, in milliseconds, by its newest answer. */
  skew = 0;
  #notBefore = 0;
  readonly pushes = new Pushes(() => this.session!);
  #csrf = "";

  constructor(private readonly fetcher: Fetch = (u, i) => fetch(u, i)) {}

  /** Fetches with the cookie and the word against forged requests; tells apart why it failed. */
  async fetch(url: string, init: RequestInit = {}, again = false): Promise<Response> {
    const headers = new Headers(init.headers);
    const sent = this.#csrf;
    if (sent) headers.set("X-CSRF-Token", sent);
    let response: Response;
    try {
      response = await this.fetcher(url, { ...init, headers, credentials: "same-origin" });
    } catch (e) {
      throw brokenOff(e, init.signal);
    }
    const date = Date.parse(response.headers.get("Date") ?? "");
    if (!Number.isNaN(date) && response.type !== "opaque" && !response.headers.has("Age")) this.skew = date - Date.now();
    const later = comeAgain(response.status, response.headers.get("Retry-After"));
    if (later) this.#notBefore = Date.now() + later;
    if (response.status === 401) throw new SignedOut();
    // Another page of this browser signed in again, or the client began without a network: the cookie has another word.
    if (response.status === 403 && !again && (await this.#renew(response, sent))) return this.fetch(url, init, true);
    if (response.status === 502 || response.status === 503 || response.status === 504) throw new Offline();
    return response;
  }

  /**
   * Reads the session's word anew where a request was refused for want of it, or with sent; true when there is another. The cookie of somebody
   * else, who signed in on another page, carries out nothing of this one.
   */
  async #renew(refusal: Response, sent: string): Promise<boolean> {
    const why = (await refusal.clone().json().catch(() => ({}))) as { error?: string };
    if (why.error !== "foreign") return false;
    if (this.#csrf !== sent) return true; // another request at the same time has it already
    const response = await this.fetcher("/auth/session", { headers: { Accept: "application/json" }, credentials: "same-origin" }).catch(() => undefined);
    const who = response?.ok ? ((await response.json()) as { name: string; address?: string; csrf?: string }) : undefined;
    if (who && this.session && (who.address || who.name) !== this.session.username) throw new SignedOut();
    const word = who?.csrf;
    if (!word || word === sent) return false;
    this.#csrf = word;
    return true;
  }

  set csrf(token: string) {
    this.#csrf = token;
  }

  get csrf(): string {
    return this.#csrf;
  }

  /** After how many milliseconds the server wants to be asked again, 0 for at once. */
  get pause(): number {
    return Math.min(Math.max(this.#notBefore - Date.now(), 0), longestWait);
  }

  /** Reads the session object. */
  async open(): Promise<Session> {
    const response = await this.fetch("/.well-known/jmap", { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Refused("session", `${response.status} ${response.statusText}`);
    this.session = await json<Session>(response);
    return this.session;
  }

  /**
   * Carries calls out in one request and gives their answers by call id; an error of any is thrown. A request that is to outlive the
   * page (keepalive) may have 64 KB.
   */
  async calls(calls: Call[], signal?: AbortSignal, keepalive = false): Promise<Map<string, Record<string, any>>> {
    if (!this.session) await this.open();
    const response = await this.fetch(this.session!.apiUrl, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ using: Object.keys(this.session!.capabilities), methodCalls: calls }),
      ...(signal ? { signal } : {}),
      keepalive,
    });
    if (!response.ok) {
      const problem = (await response.json().catch(() => ({}))) as { type?: string; detail?: string };
      throw new Refused(problem.type ?? String(response.status), problem.detail, comeAgain(response.status, response.headers.get("Retry-After")));
    }
    const answer = await json<{ methodResponses: Call[]; sessionState: string }>(response, signal);
    const out = new Map<string, Record<string, any>>();
    for (const [name, args, id] of answer.methodResponses) {
      // The mail file is away, or a mate is about to take it over: it is as if the server did not answer.
      if (name === "error" && args["type"] === "serverUnavailable") throw new Offline();
      if (name === "error") throw new Refused(String(args["type"]), args["description"] as string | undefined);
      // An implicit call (onSuccessUpdateEmail) answers under the id of its cause, behind it.
      out.set(out.has(id) ? `${id}:${name}` : id, args);
    }
    if (answer.sessionState !== this.session!.state) this.session = { ...this.session!, state: answer.sessionState };
    return out;
  }

  /** Carries one call out. */
  async call(name: string, args: Record<string, unknown>, signal?: AbortSignal): Promise<Record<string, any>> {
    return (await this.calls([[name, args, "0"]], signal)).get("0")!;
  }

  /** The address of a blob. */
  blobURL(account: Id, blob: Id, type: string, name: string): string {
    return this.session!.downloadUrl
      .replace("{accountId}", encodeURIComponent(account))
      .replace("{blobId}", encodeURIComponent(blob))
      .replace("{type}", encodeURIComponent(type))
      .replace("{name}", encodeURIComponent(name));
  }

  /** Uploads a file; fetch tells no progress, so this is XMLHttpRequest. */
  upload(account: Id, file: Blob, progress: (share: number) => void, signal?: AbortSignal): Promise<{ blobId: Id; size: number; type: string }> {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", this.session!.uploadUrl.replace("{accountId}", encodeURIComponent(account)));
      request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
      if (this.#csrf) request.setRequestHeader("X-CSRF-Token", this.#csrf);
      request.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
      request.onerror = () => reject(new Offline());
      request.onabort = () => reject(new DOMException("", "AbortError"));
      request.onload = () => {
        if (request.status === 401) return reject(new SignedOut());
        if (request.status >= 500) return reject(new Offline());
        try {
          const answer = JSON.parse(request.responseText);
          if (request.status >= 300) reject(new Refused(answer.type ?? String(request.status), answer.detail));
          else resolve(answer);
        } catch {
          reject(new Refused(String(request.status), request.statusText));
        }
      };
      signal?.addEventListener("abort", () => request.abort());
      request.send(file);
    });
  }

  /** The time by the server's clock: this device's may be hours off. */
  now(): Date {
    return new Date(Date.now() + (Math.abs(this.skew) > clockTolerance ? this.skew : 0));
  }
}
