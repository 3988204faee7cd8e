// Suggestions below the search box: recent searches, operators, people that have been seen, and folders.

import { useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { forgetRecent, recent } from "../state/recent";
import { sortedMailboxes } from "../state/mailboxes";
import { known } from "../state/people";
import { nameOrAddress } from "../state/shown";
import { t } from "../text";
import { ts, type SearchText } from "../text/search";
import { Icon, type IconName } from "./icons";
import { roleName } from "./side";

interface Suggestion {
  icon: IconName;
  text: string;
  hint: string;
  /** The text of the search box with it; one that ends with a colon waits for its value. */
  search: string;
}

const operators: [string, SearchText][] = [
  ["from:", "opFrom"], ["to:", "opTo"], ["subject:", "opSubject"], ["in:", "opIn"], ["label:", "opLabel"], ["has:attachment", "termAttachment"], ["filename:", "opFilename"],
  ["is:unread", "termUnread"], ["is:starred", "termFlagged"], ["newer_than:7d", "opNewer"], ["older_than:1y", "opOlder"], ["before:", "opBefore"], ["after:", "opAfter"], ["larger:5MB", "opLarger"],
];

/** The number of suggestions shown. */
const most = 8;
const quoted = (s: string) => (/[\s():{}"]/u.test(s) ? `"${s.replaceAll('"', "")}"` : s);

/** Completes the last word of a text. */
export function suggestions(text: string): Suggestion[] {
  const at = /(?:[^\s"]|"[^"]*"?)*$/u.exec(text)!.index;
  const head = text.slice(0, at);
  const word = text.slice(at).replaceAll('"', "").replace(/^-/u, "").toLowerCase();
  const minus = text[at] === "-" ? "-" : "";
  const make = (icon: IconName, search: string, hint: string): Suggestion => ({ icon, text: search, hint, search: head + minus + search });
  const [, field = "", value = word] = /^([a-z]+):(.*)$/u.exec(word) ?? [];
  if (!text.trim()) {
    return [...recent.value.slice(0, 5).map((r): Suggestion => ({ icon: "search", text: r, hint: ts("recentSearches"), search: r })), ...operators.slice(0, most).map(([o, key]) => make("plus", o, ts(key)))];
  }
  if (!word) return [];
  const out: Suggestion[] = [];
  if (!field) out.push(...operators.filter(([o, key]) => o.startsWith(word) || ts(key).toLowerCase().startsWith(word)).map(([o, key]) => make("plus", o, ts(key))));
  if (/^(?:|in|label)$/u.test(field)) {
    const named = sortedMailboxes.value.filter((m) => [m.role ?? "", roleName(m)].some((n) => n.toLowerCase().startsWith(value)));
    out.push(...named.slice(0, field ? most : 3).map((m) => make("folder", `${field || "in"}:${quoted(m.role ?? m.name)}`, roleName(m))));
  }
  if (/^(?:|from|to|cc|bcc|with)$/u.test(field) && (field || value.length > 1)) {
    const people = known().filter((a) => `${a.name ?? ""} ${a.email}`.toLowerCase().split(/[\s<>@.]+/u).some((w) => w.startsWith(value)) || a.email.toLowerCase().startsWith(value));
    out.push(...people.slice(0, field ? most : 3).map((a) => make("write", `${field || "from"}:${quoted(a.email)}`, nameOrAddress(a))));
  }
  return out.filter((s) => s.search !== text).slice(0, most);
}

/** Keys of the search box that the suggestions take; true where it was taken. */
export type Keys = { current: ((e: KeyboardEvent) => boolean) | null };

export function Suggest({ text, keys, choose }: { text: string; keys: Keys; choose: (search: string) => void }) {
  // The choice belongs to a text: another text has none yet.
  const chosen = useSignal({ text, at: -1 });
  const at = chosen.value.text === text ? chosen.value.at : -1;
  const pick = (to: number) => (chosen.value = { text, at: to });
  const list = suggestions(text);
  useLayoutEffect(() => {
    const input = document.getElementById("search")!;
    input.setAttribute("aria-expanded", String(list.length > 0));
    if (at >= 0) input.setAttribute("aria-activedescendant", `suggestion-${at}`);
    else input.removeAttribute("aria-activedescendant");
    keys.current = (e) => {
      if (list.length === 0) return false;
      if (e.key === "ArrowDown") pick(Math.min(list.length - 1, at + 1));
      else if (e.key === "ArrowUp") pick(Math.max(-1, at - 1));
      else if ((e.key === "Enter" || e.key === "Tab") && list[at]) choose(list[at]!.search);
      else return false;
      return true;
    };
  });
  useLayoutEffect(() => () => {
    keys.current = null;
    const input = document.getElementById("search");
    input?.setAttribute("aria-expanded", "false");
    input?.removeAttribute("aria-activedescendant");
  }, []);
  if (list.length === 0) return null;
  return (
    <div class="search-help" onMouseDown={(e) => e.preventDefault()}>
      <div role="listbox" id="suggestions" aria-label={ts("suggestions")}>
        {list.map((s, i) => (
          <div key={s.search} role="option" id={`suggestion-${i}`} aria-selected={at === i} class="suggestion" onMouseMove={() => pick(i)} onClick={() => choose(s.search)}>
            <Icon name={s.icon} /><span class="name">{s.text}</span><span class="quiet">{s.hint}</span>
          </div>
        ))}
      </div>
      {!text.trim() && recent.value.length > 0 && <button type="button" class="button" onClick={() => forgetRecent()}>{ts("forgetRecent")}</button>}
      <span class="visually-hidden" role="status">{t("search")}: {list.length}</span>
    </div>
  );
}
