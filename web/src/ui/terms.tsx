// The server's interpretation of a search: a chip for each part, which can be removed, and a line for each part that was not understood.

import { show } from "../state/list";
import { mailboxes } from "../state/mailboxes";
import { place } from "../state/place";
import { understood, type Term } from "../state/search";
import { count, language, size } from "../text";
import { ts, type SearchText } from "../text/search";
import { Icon } from "./icons";
import { roleName } from "./side";

const capital = (s: string) => s[0]!.toUpperCase() + s.slice(1);

const keywords: Record<string, SearchText> = { $flagged: "termFlagged", $answered: "termAnswered", $draft: "termDraft", $forwarded: "termForwarded", $important: "termImportant" };

/** The value of a term in the person's language. */
function valueOf({ kind, value = "" }: Term): string {
  switch (kind) {
    case "larger": case "smaller": return size(Number(value));
    case "before": case "after": case "on": return new Intl.DateTimeFormat(language.value, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(value));
    case "folder": {
      const low = value.toLowerCase();
      const box = [...mailboxes.value.values()].find((m) => m.role === low || m.name.toLowerCase() === low);
      return box ? roleName(box) : value;
    }
    default: return /\s/u.test(value) ? `“${value}”` : value;
  }
}

/** A term in the person's language. */
export function termText(t: Term): string {
  if (t.not) return ts("termNot", termText({ ...t, not: false }));
  if (t.of) return t.of.map(termText).reduce((a, b) => ts(t.kind === "any" ? "termOr" : "termAnd", a, b));
  if (t.kind === "keyword") return ts(keywords[t.value!] ?? "termKeyword", t.value!);
  return ts(`term${capital(t.kind)}` as SearchText, valueOf(t));
}

/** Searches without a part of the text. */
function without({ start, end }: { start: number; end: number }): void {
  const { text } = understood.value!;
  const left = `${text.slice(0, start).trimEnd()} ${text.slice(end).trimStart()}`.trim();
  void show({ mailbox: place.value.mailbox, search: left });
}

export function Terms() {
  const u = understood.value;
  if (!u || !place.value.search) return null;
  return (
    <div class="terms" data-search={u.text}>
      {u.kept !== undefined && <p class="notice" role="status"><Icon name="offline" />{ts("offlineSearch", count(u.kept))}</p>}
      {u.terms.length > 0 && (
        <ul aria-label={ts("understoodAs")}>
          {u.terms.map((term) => {
            const text = termText(term);
            return <li key={term.start} class="term" data-kind={term.kind}><bdi>{text}</bdi><button type="button" aria-label={ts("removeTerm", text)} title={ts("removeTerm", text)} onClick={() => without(term)}><Icon name="close" /></button></li>;
          })}
        </ul>
      )}
      {u.notUnderstood.map((n) => (
        <p class="notice not-understood" role="status" key={`${n.reason}${n.start}`}>
          <bdi>{n.reason === "offline" ? ts("offlineOperator", n.text) : ts(`unknown${capital(n.reason)}` as SearchText, n.text)}</bdi>
        </p>
      ))}
    </div>
  );
}
