// The searches that the person made last in this browser. They go with what the browser keeps of the person, at signing out.

import { signal } from "@preact/signals";
import * as db from "./db";

const most = 10;

export const recent = signal<string[]>([]);

const key = "searches";
const loaded = db.get<string[]>("facts", key).then((list) => (recent.value = [...new Set([...recent.value, ...(list ?? [])])].slice(0, most)));

/** Remembers a search that was carried out. */
export async function remember(text: string): Promise<void> {
  await loaded;
  recent.value = [text, ...recent.value.filter((r) => r !== text)].slice(0, most);
  await db.put("facts", key, recent.value);
}

export function forgetRecent(): void {
  recent.value = [];
  void db.remove("facts", key);
}
