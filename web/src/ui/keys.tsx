// Tables of keys, for pages that are not the mail: what they do, and the list that ? shows.

import { t, tc } from "../text";
import { Frame } from "./above";

export interface Key {
  /** Its keys, two of which follow each other with a blank between; "Alt+Shift+ArrowUp" with modifiers. */
  keys: string[];
  text: () => string;
  run: (key: string) => unknown;
}

export interface KeyGroup {
  title: () => string;
  keys: Key[];
}

const signs: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

const written = (k: string) => (k.length === 3 && k[1] === " " ? k.split(" ").join(` ${tc("then")} `) : k.split("+").map((p) => signs[p] ?? p).join("+"));

/** The list of keys. */
export function KeyList({ groups }: { groups: KeyGroup[] }) {
  return (
    <Frame title={t("help")}>
      <div class="key-list" tabIndex={0}>
        {groups.map((g) => (
          <section key={g.title()}>
            <h3>{g.title()}</h3>
            <div class="keys">{g.keys.map((k) => <div key={k.keys[0]}><span>{k.text()}</span><span>{k.keys.map((x) => <kbd key={x}>{written(x)}</kbd>)}</span></div>)}</div>
          </section>
        ))}
      </div>
    </Frame>
  );
}

/** Listens to keys while covered says that nothing lies above the page; the answer ends it. */
export function listenToKeys(groups: KeyGroup[], covered: () => boolean): () => void {
  const byKey = new Map(groups.flatMap((g) => g.keys.flatMap((k) => k.keys.map((x) => [x, k] as const))));
  const firsts = new Set([...byKey.keys()].filter((k) => k.length === 3 && k[1] === " ").map((k) => k[0]!));
  let before = "";
  const pressed = (e: KeyboardEvent) => {
    const target = e.target as HTMLElement;
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || covered()) return;
    if (/^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox") return;
    if (e.key === "Enter" && target.closest("button,a")) return;
    const named = `${e.altKey ? "Alt+" : ""}${e.shiftKey && e.key.length > 1 ? "Shift+" : ""}${e.key}`;
    const two = before ? `${before} ${e.key}` : "";
    before = "";
    const name = byKey.has(two) ? two : named;
    const found = byKey.get(name);
    if (found) found.run(name);
    else if (firsts.has(e.key) && !e.altKey) before = e.key;
    else return;
    e.preventDefault();
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}
