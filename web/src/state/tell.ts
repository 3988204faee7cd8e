// Tells the server each kind of action that waits (outbox.ts). All of it may be told twice, and is done once.

import { signal } from "@preact/signals";
import type { Call, Id, SetError } from "../jmap/types";
import { Offline, Refused } from "../jmap/client";
import * as db from "./db";
import type { Answer } from "./invitation";
import type { AnswerSent, Change, FolderChange, Intention, Merge, Redirection, Removal, Sending, Submitted } from "./outbox";
import { client } from "./session";

export type Answers = Map<string, Record<string, any>>;

/** The result of an intention, and the answers to the calls beside it. */
export interface Outcome {
  problem?: SetError | undefined;
  answers?: Answers;
}

/** Tells one of them; beside returns the calls that go along with a change of e-mails. */
export async function tell(i: Intention, beside: (account: Id) => Call[]): Promise<Outcome> {
  switch (i.kind) {
    case "change": return tellChange(i, beside(i.account));
    case "folders": return { problem: await tellFolders(i) };
    case "send": return { problem: await tellSending(i) };
    case "merge": return { problem: await tellMerge(i) };
    case "redirect": return { problem: await tellRedirection(i) };
    case "answer": return { problem: await tellAnswer(i) };
    case "remove":
    case "set": return tellChanged(i);
  }
}

/** Without the server, this part of the client may be missing too. */
const tellChanged = (i: Parameters<typeof import("./objects").tellObjects>[0]) => import("./objects").catch(() => Promise.reject(new Offline())).then((m) => m.tellObjects(i));

function first(errors: Record<string, SetError> | null | undefined, ...known: string[]): SetError | undefined {
  for (const e of Object.values(errors ?? {})) if (!known.includes(e.type)) return e;
  return undefined;
}

/** The refusal in the answer to a change. What is gone meanwhile needs no change any more. */
const lasting = (answer: Record<string, any>) => first(answer["notUpdated"], "notFound") ?? first(answer["notDestroyed"], "notFound");

async function tellChange(i: Change, along: Call[]): Promise<Outcome> {
  const set: Call = ["Email/set", { accountId: i.account, update: i.update, destroy: i.destroy }, "set"];
  const answers = await client.calls([set, ...along]).catch((e: unknown) => {
    if (along.length === 0 || !(e instanceof Refused) || e.later !== undefined) throw e;
    return client.calls([set]); // it may not be the change that was refused
  });
  const answer = answers.get("set")!;
  return { problem: lasting(answer), answers };
}

async function tellFolders(i: FolderChange): Promise<SetError | undefined> {
  const destroy = i.destroy.length > 0 ? { destroy: i.destroy, onDestroyRemoveEmails: true } : {};
  const answer = await client.call("Mailbox/set", { accountId: i.account, update: i.update, ...destroy });
  return lasting(answer);
}

/** Deletes events, of which the people invited hear, tasks or contacts, in a request that outlives the page. */
export async function tellRemoval(i: Removal): Promise<SetError | undefined> {
  const { account: accountId, type, update, destroy } = i;
  const answers = await client.calls([[`${type}/set`, { accountId, update, destroy, ...(type === "CalendarEvent" ? { sendSchedulingMessages: true } : {}) }, "set"]], undefined, true);
  const answer = answers.get("set")!;
  return lasting(answer);
}

/** So often is the draft of another request looked for again, and after so many milliseconds, before it counts as left behind. */
const patience = { times: 5, pause: 1000 };
/** So often is a message sent again at once where other changes come between. */
export const mostTries = 10;

/**
 * Sends a message once, which field and id name in its header; make returns the calls that make it as "m", in a state of the e-mails
 * alone. An earlier request may have been carried out, or may yet be: its answer was lost, or its page has gone. Each makes its message
 * only in the state that was read before the server was asked for the message (RFC 8620 §5.3, ifInState): of two, the one that comes
 * later either has found the message of the other, or is refused and asks again.
 */
async function sendOnce(i: Submitted, field: string, id: string, make: (ifInState: string) => Call[]): Promise<{ problem?: SetError | undefined; id?: Id | undefined }> {
  const find = (inMailbox: Id, as: string): Call => ["Email/query", { accountId: i.account, filter: { operator: "AND", conditions: [{ inMailbox }, { header: [field, id] }] }, limit: 1 }, as];
  for (let tries = 0; ; tries++) {
    const found = await client.calls([["Email/get", { accountId: i.account, ids: [], properties: ["id"] }, "state"], find(i.sent, "sent"), find(i.drafts, "draft")]);
    const state = found.get("state")!["state"] as string;
    const [sent] = found.get("sent")!["ids"] as Id[];
    if (sent) return { id: sent };
    const [draft] = found.get("draft")!["ids"] as Id[];
    try {
      if (!draft) return await submit(i, ...make(state));
      // The request that made it moves it to Sent in a moment, unless it was cut off before it sent it.
      if (tries < patience.times) await new Promise((done) => setTimeout(done, patience.pause));
      else await client.call("Email/set", { accountId: i.account, ifInState: state, destroy: [draft] });
    } catch (e) {
      if (!(e instanceof Refused) || e.type !== "stateMismatch") throw e;
      if (tries >= mostTries) throw new Refused(e.type, e.message, 0);
    }
  }
}

/** Submits the draft that the calls before make as "m"; where it is refused the draft goes again. */
async function submit(i: Submitted, ...make: Call[]): Promise<{ problem: SetError | undefined; id: Id | undefined }> {
  const answers = await client.calls([
    ...make,
    ["EmailSubmission/set", {
      accountId: i.account,
      create: { s: { emailId: "#m", identityId: i.identity, envelope: i.envelope } },
      onSuccessUpdateEmail: { "#s": { [`mailboxIds/${i.drafts}`]: null, [`mailboxIds/${i.sent}`]: true, "keywords/$draft": null } },
    }, "submit"],
  ]);
  const last = make[make.length - 1]![2];
  const problem = make.map((c) => first(answers.get(c[2])!["notCreated"])).find(Boolean) ?? first(answers.get("submit")!["notCreated"]);
  const id = (answers.get(last)!["created"] as Record<string, { id: Id }> | null)?.["m"]?.id;
  if (problem && id) await client.call("Email/set", { accountId: i.account, destroy: [id] });
  return { problem, id };
}

async function tellSending(i: Sending): Promise<SetError | undefined> {
  const email = { ...i.email, mailboxIds: { [i.drafts]: true }, keywords: { $draft: true, $seen: true } };
  const { problem, id } = await sendOnce(i, "Message-ID", (i.email["messageId"] as string[])[0]!,
    (ifInState) => [["Email/set", { accountId: i.account, ifInState, create: { m: email } }, "make"]]);
  if (problem) return problem;
  if (i.replaces.length > 0) await afterwards(client.call("Email/set", { accountId: i.account, destroy: i.replaces }));
  const a = i.answered;
  if (a) await afterwards(client.call("Email/set", { accountId: a.account ?? i.account, update: { [a.id]: { [`keywords/${a.keyword}`]: true } } }));
  if (i.remind && id) await afterwards(client.call("SnoozedEmail/set", { accountId: i.account, update: { [id]: { until: i.remind, unlessAnswered: true } } }));
  return undefined;
}

/** The progress of messages that go to each of several people apart; null: none is under way. */
export const apart = signal<{ done: number; of: number } | null>(null);

/** Sends to one after the other, and keeps how far it is: what follows a reload, or a server that did not answer, goes on there. */
async function tellMerge(i: Extract<Intention, Merge>): Promise<SetError | undefined> {
  const { letterOf } = await import("./merge");
  const kept = await db.get<Merge>("outbox", i.key); // another page may have begun
  if (kept && kept.done > i.done) Object.assign(i, { done: kept.done, refused: kept.refused });
  try {
    while (i.done < i.people.length) {
      apart.value = { done: i.done, of: i.people.length };
      const problem = await tellLetter(i, letterOf(i.email, i, i.done));
      if (problem?.type === "rateLimit") return problem;
      if (problem) i.refused.push({ at: i.done, why: problem.description || problem.type });
      i.done++;
      await db.put("outbox", i.key, i);
    }
  } finally {
    apart.value = null;
  }
  const [bad] = i.refused;
  if (bad) return { type: "refused", description: bad.why };
  if (i.replaces.length > 0) await afterwards(client.call("Email/set", { accountId: i.account, destroy: i.replaces }));
  return undefined;
}

/** Sends to one of several people; what the server refuses of that concerns them alone. */
async function tellLetter(i: Merge, email: Sending["email"]): Promise<SetError | undefined> {
  const [to] = email["to"] as { email: string }[];
  try {
    return await tellSending({ ...i, kind: "send", email, replaces: [], answered: null, envelope: { ...i.envelope, rcptTo: [{ email: to!.email }] } });
  } catch (e) {
    if (!(e instanceof Refused) || e.later !== undefined) throw e;
    return { type: e.type, description: e.message };
  }
}

/** Waits for a change after sending; its refusal is no refusal of the message. */
async function afterwards(done: Promise<unknown>): Promise<void> {
  await done.catch((e: unknown) => {
    if (!(e instanceof Refused) || e.later !== undefined) throw e;
  });
}

/** The message goes on as it is, byte for byte, behind the fields that say who sent it on (RFC 5322 §3.6.6). */
const tellRedirection = (i: Redirection) => sendWhole(i, "Resent-Message-ID", i.resentID, [{ "data:asText": i.fields }, { blobId: i.blob }], { [i.email]: { "keywords/$forwarded": true } });

/** The patch that records an answer with the invitation. */
export const answerPatch = (answer: Answer) => Object.fromEntries(["accepted", "tentative", "declined"].map((a) => [`keywords/$${a}`, a === answer || null]));

async function tellAnswer(i: AnswerSent): Promise<SetError | undefined> {
  const problem = await sendWhole(i, "Message-ID", i.messageID, [{ "data:asText": i.message }], { [i.email]: answerPatch(i.answer) });
  const event = i.event;
  if (problem || !event) return problem;
  // The answer is on its way: what the calendar refuses is no refusal of it.
  await afterwards(import("./recorded").then((m) => m.record(i.account, event, i.answer)));
  return undefined;
}

/** Sends a message of which all bytes are given, once, and then changes e-mails. */
async function sendWhole(i: Submitted, field: string, id: string, data: object[], then: Change["update"]): Promise<SetError | undefined> {
  const { problem } = await sendOnce(i, field, id, (ifInState) => [
    ["Blob/upload", { accountId: i.account, create: { b: { type: "message/rfc822", data } } }, "upload"],
    ["Email/import", { accountId: i.account, ifInState, emails: { m: { blobId: "#b", mailboxIds: { [i.drafts]: true }, keywords: { $draft: true, $seen: true } } } }, "make"],
  ]);
  if (!problem) await afterwards(client.call("Email/set", { accountId: i.account, update: then }));
  return problem;
}
