// The form of a rule: conditions, actions, and which of the newest messages it would have met.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Id, Mailbox } from "../jmap/types";
import { byRole, mailboxes, pathOf, sortedMailboxes } from "../state/mailboxes";
import { labels } from "../state/own";
import { changedRule, compares, comparisons, suggest, tryRule, type Action, type ActionType, type Comparison, type Condition, type Field, type Rule, type Tried } from "../state/rules";
import { actionText, comparisonText, fieldText, triedText } from "../state/rulewords";
import { t } from "../text";
import { tu } from "../text/rules";
import { Icon } from "./icons";
import { roleName } from "./side";

const fields = Object.keys(comparisons) as Field[];
const kinds: ActionType[] = ["move", "copy", "label", "read", "star", "forward", "redirect", "reject", "delete", "discard", "keep"];
const valued = new Set<ActionType>(["move", "copy", "label", "forward", "redirect", "reject"]);

/** The full name of a folder, as Sieve has it. */
function sieveName(m: Mailbox): string {
  const parent = m.parentId ? mailboxes.value.get(m.parentId) : undefined;
  return parent ? `${sieveName(parent)}/${m.name}` : m.name;
}

/** Edits a rule; done gets the rule, or null where it stays as it was. */
export function RuleEditor({ rule, from, done }: { rule: Rule; from?: Id; done: (r: Rule | null) => unknown }) {
  const r = useSignal(rule);
  const busy = useSignal(false);
  const set = (by: Partial<Rule>) => (r.value = changedRule(r.value, by));
  const x = r.value;
  const save = async () => {
    busy.value = true;
    await done(x);
    busy.value = false;
  };
  return (
    <form class="rule-editor" onSubmit={(e) => { e.preventDefault(); void save(); }}>
      {x.isOpaque ? (
        <>
          <p class="quiet">{tu("ruleOpaqueHint")}</p>
          <label class="field"><span>{tu("ruleOpaque")}</span><textarea class="mono" spellcheck={false} value={(x.text ?? "").trim()} onInput={(e) => (r.value = { ...x, text: `\n${e.currentTarget.value.trim()}` })} /></label>
        </>
      ) : (
        <>
          <label class="field"><span>{tu("ruleName")}</span><input value={x.name} maxLength={100} onInput={(e) => set({ name: e.currentTarget.value })} /></label>
          <Conditions x={x} set={set} {...(from ? { from } : {})} />
          <Actions x={x} set={set} />
        </>
      )}
      <Trial rule={x} />
      <div class="ends">
        <button type="button" class="button" onClick={() => void done(null)}>{t("cancel")}</button>
        <button class="button primary" disabled={busy.value}>{t("save")}</button>
      </div>
    </form>
  );
}

function Conditions({ x, set, from }: { x: Rule; set: (by: Partial<Rule>) => void; from?: Id }) {
  const offered = useSignal<Condition[]>([]);
  useEffect(() => {
    if (from) void suggest(from).then((list) => (offered.value = list ?? []), () => undefined);
  }, [from]);
  const change = (i: number, by: Condition) => set({ conditions: x.conditions.map((c, k) => (k === i ? by : c)) });
  const add = (c: Condition) => set({ conditions: [...x.conditions, c] });
  const left = offered.value.filter((c) => !x.conditions.some((y) => y.field === c.field));
  return (
    <fieldset>
      <legend>{x.conditions.length > 1 ? <>{tu("ruleIf")} <select aria-label={tu("ruleIf")} value={x.match} onChange={(e) => set({ match: e.currentTarget.value as Rule["match"] })}><option value="all">{tu("ruleAll")}</option><option value="any">{tu("ruleAny")}</option></select></> : tu(x.conditions.length === 1 ? "ruleIfOne" : "ruleEvery")}</legend>
      {x.conditions.map((c, i) => <OneCondition key={i} c={c} at={i} change={(by) => change(i, by)} remove={() => set({ conditions: x.conditions.filter((_, k) => k !== i) })} />)}
      <div class="rule-more">
        {left.map((c) => <button type="button" class="chip" onClick={() => add(c)}><Icon name="plus" />{fieldText(c.field)} {c.values?.[0]}</button>)}
        <button type="button" class="button" onClick={() => add({ field: "from", comparison: "contains", values: [""] })}>{tu("ruleAddCondition")}</button>
      </div>
    </fieldset>
  );
}

function OneCondition({ c, at, change, remove }: { c: Condition; at: number; change: (by: Condition) => void; remove: () => void }) {
  const ways = comparisons[c.field];
  const pick = (field: Field) => {
    const comparison = comparisons[field].includes(c.comparison ?? "") ? c.comparison! : comparisons[field][0]!;
    const next: Condition = { field, comparison, values: c.values ?? [""], header: c.header ?? "", size: c.size ?? 1 << 20 };
    change(tidy(next));
  };
  const how = (value: string) => change(tidy({ ...c, not: value.startsWith("!"), comparison: value.replace("!", "") as Comparison, values: c.values ?? [""] }));
  return (
    <div class="rule-line" role="group" aria-label={tu("ruleCondition", at + 1)}>
      <select aria-label={tu("ruleCondition", at + 1)} value={c.field} onChange={(e) => pick(e.currentTarget.value as Field)}>{fields.map((f) => <option key={f} value={f}>{fieldText(f)}</option>)}</select>
      {c.field === "header" && <input class="short" required aria-label={tu("ruleHeaderName")} placeholder={tu("ruleHeaderName")} value={c.header ?? ""} onInput={(e) => change({ ...c, header: e.currentTarget.value.trim() })} />}
      <select aria-label={tu("ruleComparison")} value={(c.not ? "!" : "") + (c.comparison ?? "")} onChange={(e) => how(e.currentTarget.value)}>
        {ways.flatMap((w) => [false, true].map((not) => <option key={`${not}${w}`} value={(not ? "!" : "") + w}>{comparisonText(w, not)}</option>))}
      </select>
      {c.field === "size" && <span class="rule-size"><input type="number" min="0" step="any" required aria-label={`${tu("ruleSize")} (${tu("ruleSizeKB")})`} value={(c.size ?? 0) / 1024} onInput={(e) => change({ ...c, size: Math.max(0, Math.round(e.currentTarget.valueAsNumber * 1024) || 0) })} />{tu("ruleSizeKB")}</span>}
      {compares(c) && <textarea class="wide" required rows={Math.max(1, c.values?.length ?? 1)} aria-label={tu("ruleValues")} title={tu("ruleValues")} value={(c.values ?? []).join("\n")}
        onInput={(e) => change({ ...c, values: e.currentTarget.value.split("\n") })} onBlur={() => change({ ...c, values: withoutEmpty(c.values ?? []) })} />}
      <button type="button" class="tool" aria-label={tu("ruleRemoveCondition", at + 1)} title={tu("ruleRemoveCondition", at + 1)} onClick={remove}><Icon name="close" /></button>
    </div>
  );
}

/** A condition with the properties alone that its field has. */
function tidy(c: Condition): Condition {
  const out: Condition = { field: c.field, comparison: c.comparison ?? "", not: !!c.not };
  if (c.field === "header") out.header = c.header ?? "";
  if (c.field === "size") out.size = c.size ?? 0;
  if (compares(c)) out.values = c.values ?? [""];
  return out;
}

function withoutEmpty(list: string[]): string[] {
  const kept = list.map((v) => v.trim()).filter(Boolean);
  return kept.length > 0 ? kept : [""];
}

function Actions({ x, set }: { x: Rule; set: (by: Partial<Rule>) => void }) {
  const change = (i: number, by: Action) => set({ actions: x.actions.map((a, k) => (k === i ? by : a)) });
  return (
    <fieldset>
      <legend>{tu("ruleThen")}</legend>
      {x.actions.map((a, i) => (
        <div key={i} class="rule-line" role="group" aria-label={tu("ruleAction", i + 1)}>
          <select aria-label={tu("ruleAction", i + 1)} value={a.type} onChange={(e) => change(i, { type: e.currentTarget.value as ActionType, value: "" })}>{kinds.map((k) => <option key={k} value={k}>{actionText(k, "…")}</option>)}</select>
          {valued.has(a.type) && <Value a={a} change={(value) => change(i, { ...a, value })} />}
          <button type="button" class="tool" aria-label={tu("ruleRemoveAction", i + 1)} title={tu("ruleRemoveAction", i + 1)} onClick={() => set({ actions: x.actions.filter((_, k) => k !== i) })}><Icon name="close" /></button>
        </div>
      ))}
      <div class="rule-more"><button type="button" class="button" onClick={() => set({ actions: [...x.actions, { type: "read" }] })}>{tu("ruleAddAction")}</button></div>
      <label class="check"><input type="checkbox" checked={x.stop} onChange={(e) => set({ stop: e.currentTarget.checked })} />{tu("ruleStop")}</label>
    </fieldset>
  );
}

/** The folder, label, address or text of an action. */
function Value({ a, change }: { a: Action; change: (value: string) => void }) {
  const value = a.value ?? "";
  if (a.type === "move" || a.type === "copy") {
    const all = sortedMailboxes.value.map((m) => ({ name: sieveName(m), shown: m.parentId ? pathOf(m) : roleName(m) }));
    return (
      <select class="wide" required aria-label={tu("ruleFolder")} value={value} onChange={(e) => change(e.currentTarget.value)}>
        <option value="">{tu("ruleNone")}</option>
        {value && !all.some((m) => m.name === value) && <option value={value}>{value}</option>}
        {all.map((m) => <option key={m.name} value={m.name}>{m.shown}</option>)}
      </select>
    );
  }
  if (a.type === "label") {
    const all = labels.value;
    return (
      <select class="wide" required aria-label={tu("ruleKeyword")} value={value} onChange={(e) => change(e.currentTarget.value)}>
        <option value="">{tu("ruleNone")}</option>
        {value && !all.some((l) => l.keyword === value) && <option value={value}>{value}</option>}
        {all.map((l) => <option key={l.keyword} value={l.keyword}>{l.name}</option>)}
      </select>
    );
  }
  if (a.type === "reject") return <textarea class="wide" required aria-label={tu("ruleReason")} value={value} onInput={(e) => change(e.currentTarget.value)} />;
  return <input class="wide" type="email" required aria-label={tu("ruleAddress")} placeholder={tu("ruleAddress")} value={value} onInput={(e) => change(e.currentTarget.value.trim())} />;
}

/** The most messages of a dry run that are listed. */
const listed = 5;

/** The actions of a rule that can be done as they are; those without a value are being written. */
const ready = (r: Rule) => r.actions.filter((a) => !valued.has(a.type) || a.value?.trim());

/** A rule that can be tried before its actions are there, or does no more than keep: what it meets does not depend on that. */
function triable(r: Rule): Rule {
  if (r.isOpaque) return r;
  const actions = ready(r);
  const met: Action[] = actions.some((a) => a.type !== "keep") ? actions : [{ type: "star" }];
  return { ...r, actions: met, conditions: r.conditions.map((c) => (compares(c) ? { ...c, values: withoutEmpty(c.values ?? []) } : c)) };
}

/** Which of the newest messages of the inbox the rule would have met; asked anew a moment after each change. */
function Trial({ rule }: { rule: Rule }) {
  const found = useSignal<{ tested: number; list: Tried[] } | null>(null);
  const problem = useSignal("");
  const inbox = byRole("inbox");
  const asked = triable(rule);
  const complete = asked.isOpaque || asked.conditions.every((c) => (!compares(c) || c.values?.[0]) && (c.field !== "header" || c.header));
  const key = JSON.stringify(asked);
  useEffect(() => {
    if (!inbox || !complete) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      tryRule(asked, inbox.id, stop.signal).then((x) => {
        if (x && !stop.signal.aborted) { found.value = x; problem.value = ""; }
      }, (e: unknown) => {
        if (!stop.signal.aborted) { found.value = null; problem.value = e instanceof Error ? e.message : String(e); }
      });
    }, 400);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [key, inbox?.id, complete]);
  const x = found.value;
  const does = rule.isOpaque || ready(rule).some((a) => a.type !== "keep");
  return (
    <div class="rule-trial">
      <output aria-label={tu("ruleTry")}>{problem.value ? tu("ruleUntried", problem.value) : x && inbox ? tu("ruleTried", x.list.length, x.tested, roleName(inbox)) : ""}</output>
      {x && x.list.length > 0 && (
        <ul>{x.list.slice(0, listed).map((m) => <li key={m.emailId}><strong>{m.subject || t("noSubject")}</strong> <span class="quiet">{[m.from, does && triedText(m)].filter(Boolean).join(" · ")}</span></li>)}{x.list.length > listed && <li class="quiet">…</li>}</ul>
      )}
    </div>
  );
}
