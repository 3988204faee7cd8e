// The settings of the person that the server keeps for all browsers: colours and names of labels, colours of folders, saved searches,
// templates (urn:doublet:jmap:preferences, doc/jmap.md).

import { computed, signal } from "@preact/signals";
import { pointer, refusalIn, whyOf } from "../jmap/client";
import * as db from "./db";
import { attempt, client, home } from "./session";

export const own = signal<Map<string, string>>(new Map());

/** Reads them as this browser keeps them. */
export async function readOwn(): Promise<void> {
  const kept = await db.get<[string, string][]>("facts", "own");
  if (kept) own.value = new Map(kept);
}

/** Takes them as the server has them: the answer to Preferences/get. */
export async function takeOwn(answer: Record<string, unknown>): Promise<void> {
  own.value = new Map(Object.entries((answer["list"] as { values: Record<string, string> }[])[0]?.values ?? {}));
  await db.put("facts", "own", [...own.value]);
}

/** Sets one, or takes it away with null: on the screen at once. Why the server refused it, if it did; it is as before then. */
export async function setOwn(name: string, value: string | null): Promise<"offline" | string | undefined> {
  const before = own.value;
  const next = new Map(before);
  if (value === null) next.delete(name);
  else next.set(name, value);
  own.value = next;
  try {
    const path = `values/${pointer(name)}`;
    const answer = await attempt(() => client.call("Preferences/set", { accountId: home.value, update: { singleton: { [path]: value } } }));
    const problem = answer && refusalIn(answer);
    if (answer && !problem) {
      await db.put("facts", "own", [...own.value]);
      return undefined;
    }
    own.value = before;
    return problem ? whyOf(problem) : "offline";
  } catch (e) {
    own.value = before;
    return e instanceof Error ? e.message : String(e);
  }
}

export const hues = { green: 150, teal: 182, blue: 212, violet: 265, pink: 318, red: 2, orange: 28, yellow: 52 } as const;
export type Hue = keyof typeof hues;
const hueOf = (s: string | undefined) => (s && s in hues ? (s as Hue) : undefined);

/** A label: the keyword that stands for it on messages, and how it is shown. */
export interface Label {
  keyword: string;
  name: string;
  hue: Hue | undefined;
}

const ownLabels = computed(() => {
  const out = new Map<string, Label>();
  for (const [key, value] of own.value) {
    if (!key.startsWith("label:")) continue;
    const keyword = key.slice(6);
    try {
      const { name, hue } = JSON.parse(value) as { name?: string; hue?: string };
      out.set(keyword, { keyword, name: typeof name === "string" && name ? name : keyword, hue: hueOf(hue) });
    } catch {
      // what cannot be read is as if it were not there
    }
  }
  return out;
});

/** The labels that the person made, by name. */
export const labels = computed(() => [...ownLabels.value.values()].sort((a, b) => a.name.localeCompare(b.name)));

/** The label of a keyword, which another program may have set. */
export const labelOf = (keyword: string): Label => ownLabels.value.get(keyword) ?? { keyword, name: keyword, hue: undefined };

/** The labels among keywords. */
export const labelsOf = (keywords: Record<string, boolean>): Label[] => Object.keys(keywords).filter((k) => !k.startsWith("$")).map(labelOf);

export const setLabel = (l: Label) => setOwn(`label:${l.keyword}`, JSON.stringify({ name: l.name, ...(l.hue ? { hue: l.hue } : {}) }));

/** The colour of a folder. */
export const folderHue = (id: string): Hue | undefined => hueOf(own.value.get(`folder:${id}`));
