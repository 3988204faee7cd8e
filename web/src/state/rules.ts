// The rules for new mail: those of the active Sieve script, in the form in which the server reads it (urn:doublet:jmap:rules,
// doc/jmap.md), and the scripts as text (RFC 9661).

import type { Id, SetError } from "../jmap/types";
import { refusalIn, Refused, whyOf } from "../jmap/client";
import { attempt, client, home } from "./session";

export type Field = "from" | "recipients" | "subject" | "header" | "list" | "text" | "size" | "attachment";
export type Comparison = "contains" | "is" | "domain" | "matches" | "regex" | "exists" | "over" | "under" | "";

export interface Condition {
  field: Field;
  comparison?: Comparison;
  not?: boolean;
  header?: string;
  values?: string[];
  /** Bytes. */
  size?: number;
}

export type ActionType = "move" | "copy" | "label" | "read" | "star" | "forward" | "redirect" | "reject" | "delete" | "discard" | "keep";

export interface Action {
  type: ActionType;
  value?: string;
  create?: boolean;
}

export interface Rule {
  name: string;
  comment?: string;
  isEnabled: boolean;
  match: "all" | "any";
  conditions: Condition[];
  actions: Action[];
  stop: boolean;
  /** A part of the script that no form shows. */
  isOpaque?: boolean;
  /** The rule in Sieve: it is what counts. A rule that was changed in the form has none. */
  text?: string;
}

export interface Rules {
  state: string;
  scriptId: Id | null;
  name: string | null;
  isActive: boolean;
  /** null: the script has mistakes. */
  rules: Rule[] | null;
}

export interface Script {
  id: Id;
  name: string;
  blobId: Id;
  isActive: boolean;
}

/** The comparisons of each field, the usual one first. */
export const comparisons: Record<Field, Comparison[]> = {
  from: ["contains", "is", "domain", "matches", "regex"], recipients: ["contains", "is", "domain", "matches", "regex"],
  subject: ["contains", "is", "matches", "regex"], text: ["contains", "matches", "regex"], list: ["contains", "is", "matches", "regex"],
  header: ["contains", "is", "exists", "matches", "regex"], size: ["over", "under"], attachment: [""],
};

/** Reports if a condition compares with texts. */
export const compares = (c: Condition) => c.field !== "size" && c.field !== "attachment" && c.comparison !== "exists";

export const newRule = (): Rule => ({ name: "", isEnabled: true, match: "all", conditions: [], actions: [{ type: "move", value: "" }], stop: false });

/** A rule that was changed in the form: its text counts no more. */
export function changedRule(r: Rule, by: Partial<Rule>): Rule {
  const { text: _, ...rest } = r;
  return { ...rest, ...by };
}

/** Reads the rules; undefined: the server was not reached. */
export async function readRules(): Promise<Rules | undefined> {
  return attempt(async () => {
    const answer = await client.call("SieveRules/get", { accountId: home.value, ids: null });
    return { ...(answer["list"] as Rules[])[0]!, state: answer["state"] as string };
  });
}

/** Stores rules, if they are those of a state; "changed": they are not, "offline": the server was not reached. Refused says why not. */
export async function writeRules(rules: Rule[], state: string): Promise<"stored" | "changed" | "offline"> {
  try {
    const answer = await attempt(() => client.call("SieveRules/set", { accountId: home.value, ifInState: state, update: { singleton: { rules } } }));
    if (!answer) return "offline";
    const problem = refusalIn(answer);
    if (problem) throw new Refused(problem.type, problem.description);
    return "stored";
  } catch (e) {
    if (isChanged(e)) return "changed";
    throw e;
  }
}

/** Reports if an error says that rules or scripts are not those of a state. */
export const isChanged = (e: unknown) => e instanceof Refused && e.type === "stateMismatch";

/** A message of a dry run, with what would be done with it in the words of Sieve. */
export interface Tried {
  emailId: Id;
  from: string;
  subject: string;
  actions: { type: string; value?: string; flags?: string[] }[];
  error: string | null;
}

/** Has the server try a rule on the newest messages of a folder. Nothing is changed. */
export async function tryRule(rule: Rule, mailbox: Id, signal?: AbortSignal): Promise<{ tested: number; list: Tried[] } | undefined> {
  const { text, ...form } = rule;
  const asked = rule.isOpaque ? { text } : { ...form, isEnabled: true };
  const answer = await attempt(() => client.call("SieveRules/test", { accountId: home.value, rules: [asked], mailboxId: mailbox, limit: 500 }, signal));
  return answer as { tested: number; list: Tried[] } | undefined;
}

/** The conditions that a message suggests: its list, its author, its subject. */
export async function suggest(emailId: Id): Promise<Condition[] | undefined> {
  const answer = await attempt(() => client.call("SieveRules/suggest", { accountId: home.value, emailId }));
  return answer?.["conditions"] as Condition[] | undefined;
}

/** Reads the scripts of the person, and their state. */
export async function readScripts(): Promise<{ state: string; list: Script[] } | undefined> {
  return (await attempt(() => client.call("SieveScript/get", { accountId: home.value, ids: null }))) as { state: string; list: Script[] } | undefined;
}

/** Reads the text of a script. */
export async function readScript(s: Script): Promise<string | undefined> {
  return attempt(async () => {
    const answer = await client.fetch(client.blobURL(home.value, s.blobId, "application/sieve", "script.sieve"));
    if (!answer.ok) throw new Refused("script", `${answer.status} ${answer.statusText}`);
    return answer.text();
  });
}

/** A mistake in a script; line 0 is the script as a whole. */
export interface Mistake {
  line: number;
  text: string;
}

const mistakesOf = (problem: SetError | null | undefined): Mistake[] => problem ? whyOf(problem).split("\n").map((one) => {
  const found = /^line (\d+): (.*)$/u.exec(one);
  return found ? { line: Number(found[1]), text: found[2]! } : { line: 0, text: one };
}) : [];

/** The mistakes in a script, by the server. */
export async function mistakesIn(text: string, signal?: AbortSignal): Promise<Mistake[] | undefined> {
  const answer = await attempt(() => client.call("SieveRules/parse", { accountId: home.value, text }, signal));
  return answer && mistakesOf(answer["error"] as SetError | null);
}

/** Stores a script as text, if the scripts are those of a state, and switches it on; its mistakes if it has some. */
export async function writeScript(id: Id | null, text: string, activate: boolean, state: string): Promise<Mistake[] | undefined> {
  const content = { blobId: "#text" };
  const answers = await attempt(() => client.calls([
    ["Blob/upload", { accountId: home.value, create: { text: { type: "application/sieve", data: [{ "data:asText": text }] } } }, "b"],
    ["SieveScript/set", {
      accountId: home.value, ifInState: state, ...(id ? { update: { [id]: content } } : { create: { a: { name: "rules", ...content } } }),
      ...(activate ? { onSuccessActivateScript: id ?? "#a" } : {}),
    }, "s"],
  ]));
  if (!answers) return undefined;
  return mistakesOf(refusalIn(answers.get("s")!));
}

/** Switches a script on. */
export async function activate(id: Id): Promise<boolean> {
  return !!(await attempt(() => client.call("SieveScript/set", { accountId: home.value, onSuccessActivateScript: id })));
}
