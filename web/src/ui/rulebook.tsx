// The rules for new mail: their list, and a rule that is made from a message.

import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Id } from "../jmap/types";
import { activate, changedRule, newRule, readRules, suggest, writeRules, type Rule, type Rules as Book } from "../state/rules";
import { sentence } from "../state/rulewords";
import { say, sheet } from "../state/screen";
import { offers } from "../state/session";
import { refusal, t } from "../text";
import { tu } from "../text/rules";
import "../look/rules.css";
import { Frame } from "./above";
import { Icon, type IconName } from "./icons";
import { RuleEditor } from "./ruleeditor";
import { ScriptEditor } from "./rulescript";

const reason = (e: unknown) => (e instanceof Error ? e.message : String(e));

/** Reads the rules into a signal, and says it where that fails. */
function useBook(): { book: Signal<Book | null>; read: (shows?: () => boolean) => Promise<void>; write: (rules: Rule[]) => Promise<boolean> } {
  const book = useSignal<Book | null>(null);
  /** The rules as the server has them. */
  const stored = useRef<Book | null>(null);
  /** The last change, and the number of changes that are not stored yet. */
  const last = useRef<Promise<boolean>>(Promise.resolve(true));
  const under = useRef(0);
  const read = async (shows = () => true) => {
    try {
      const found = await readRules();
      if (!found) return void say(t("cannotReach"));
      stored.current = found;
      if (shows()) book.value = found;
    } catch (e) {
      say(refusal(e));
    }
  };
  const store = async (rules: Rule[]) => {
    let done: Awaited<ReturnType<typeof writeRules>>;
    try {
      done = await writeRules(rules, stored.current!.state);
    } catch (e) {
      book.value = stored.current;
      say(tu("ruleRefused", reason(e)), undefined, 12);
      return false;
    }
    if (done === "offline") {
      book.value = stored.current;
      say(t("cannotReach"));
      return false;
    }
    await read(() => done === "changed" || under.current === 1); // not over a change that came meanwhile
    if (done === "changed") say(tu("rulesChanged"));
    return done === "stored";
  };
  const write = async (rules: Rule[]) => {
    if (!book.value) return false;
    book.value = { ...book.value, rules };
    // A change is stored behind the one before, on which it builds: without that one it is none.
    const before = under.current++ > 0 ? last.current : Promise.resolve(true);
    last.current = before.then((is) => is && store(rules));
    return last.current.finally(() => under.current--);
  };
  useEffect(() => void read(), []);
  return { book, read, write };
}

const nameOf = (r: Rule, at: number) => r.name || tu("ruleUnnamed", at + 1);

/** The section of rules in the settings. */
export function Rules() {
  const { book, read, write } = useBook();
  /** The place of the rule that is edited; the number of rules stands for a new one. */
  const editing = useSignal<number | null>(null);
  const asText = useSignal(false);
  const b = book.value;
  if (!offers("urn:doublet:jmap:rules") || !b) return null;
  const rules = b.rules ?? [];
  const at = editing.value;
  return (
    <section class="rules">
      <h3>{tu("rules")}</h3>
      <p class="quiet">{tu("rulesHint")}</p>
      {b.scriptId && !b.isActive && <p class="said">{tu("rulesOff", b.name ?? "")} <button class="button" onClick={() => void activate(b.scriptId!).then(() => read())}>{tu("rulesTurnOn")}</button></p>}
      {b.rules === null && <p class="said" role="alert">{tu("rulesBroken", b.name ?? "")}</p>}
      {at === null ? <List rules={rules} write={write} edit={(i) => (editing.value = i)} /> : (
        <RuleEditor key={at} rule={rules[at] ?? newRule()} done={async (r) => {
          if (r && !(await write([...rules.slice(0, at), r, ...rules.slice(at + 1)]))) return;
          editing.value = null;
        }} />
      )}
      {asText.value ? <ScriptEditor close={() => void read().then(() => (asText.value = false))} /> : at === null && (
        <div class="rule-ends">
          {b.rules && <button class="button" onClick={() => (editing.value = rules.length)}>{tu("ruleNew")}</button>}
          <button class="button" onClick={() => (asText.value = true)}>{tu("ruleScript")}</button>
        </div>
      )}
    </section>
  );
}

function List({ rules, write, edit }: { rules: Rule[]; write: (rules: Rule[]) => Promise<boolean>; edit: (at: number) => void }) {
  const dragged = useSignal<number | null>(null);
  const over = useSignal<number | null>(null);
  const list = useRef<HTMLOListElement>(null);
  if (rules.length === 0) return <p>{tu("rulesNone")}</p>;
  const move = async (from: number, to: number) => {
    if (to < 0 || to >= rules.length || from === to) return;
    const next = rules.filter((_, i) => i !== from);
    next.splice(to, 0, rules[from]!);
    await write(next);
    list.current?.querySelectorAll<HTMLElement>("li")[to]?.querySelector<HTMLElement>(from > to ? ".up" : ".down")?.focus();
  };
  const drop = () => {
    const from = dragged.value, to = over.value;
    dragged.value = over.value = null;
    if (from !== null && to !== null) void move(from, to);
  };
  const remove = async (i: number) => {
    const before = rules;
    if (await write(rules.filter((_, k) => k !== i))) say(tu("ruleRemoved"), { text: t("undo"), run: () => void write(before) });
  };
  const tool = (icon: IconName, text: string, run: () => void, name = "") => <button class={`tool ${name}`} aria-label={text} title={text} onClick={run}><Icon name={icon} /></button>;
  return (
    <ol class="rule-list" ref={list}>
      {rules.map((r, i) => {
        const name = nameOf(r, i);
        return (
          <li key={`${i} ${r.text}`} class={`${r.isEnabled ? "" : "off"} ${over.value === i && dragged.value !== i ? "over" : ""}`} draggable
            onDragStart={(e) => { dragged.value = i; e.dataTransfer!.effectAllowed = "move"; e.dataTransfer!.setData("text/plain", name); }}
            onDragOver={(e) => { if (dragged.value === null) return; e.preventDefault(); over.value = i; }}
            onDrop={(e) => { e.preventDefault(); drop(); }} onDragEnd={() => (dragged.value = over.value = null)}>
            {r.isOpaque ? <span class="chip">{tu("ruleOpaque")}</span> : <input type="checkbox" checked={r.isEnabled} aria-label={tu("ruleOnNamed", name)} title={tu("ruleOn")}
              onChange={(e) => void write(rules.map((x, k) => (k === i ? changedRule(x, { isEnabled: e.currentTarget.checked }) : x)))} />}
            <button class="rule-text" aria-label={tu("ruleEditNamed", name)} onClick={() => edit(i)}><strong>{name}</strong><span class={r.isOpaque ? "quiet mono" : "quiet"}>{sentence(r)}</span></button>
            <span class="rule-tools">
              {tool("up", tu("ruleUp", name), () => void move(i, i - 1), "up")}
              {tool("down", tu("ruleDown", name), () => void move(i, i + 1), "down")}
              {tool("trash", tu("ruleRemoveNamed", name), () => void remove(i))}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** The sheet that makes a rule from a message. */
export function RuleFrom({ id }: { id: Id }) {
  const { book, write } = useBook();
  const rule = useSignal<Rule | null>(null);
  useEffect(() => {
    void suggest(id).then((conditions) => {
      if (!conditions) return void say(t("cannotReach"));
      // A list stands for all who write to it; else it is the author. The subject is offered, and left out unless nothing else is there.
      rule.value = { ...newRule(), name: conditions[0]?.values?.[0] ?? "", conditions: conditions.slice(0, 1) };
      return undefined;
    }, (e: unknown) => void say(refusal(e)));
  }, [id]);
  const b = book.value;
  const close = () => (sheet.value = null);
  return (
    <Frame title={tu("ruleFromMessage")}>
      {b && !b.rules && <p class="said" role="alert">{tu("rulesBroken", b.name ?? "")}</p>}
      {b?.rules && rule.value ? <RuleEditor rule={rule.value} from={id} done={async (r) => {
        if (!r || (await write([...b.rules!, r]))) {
          if (r) say(t("saved"));
          close();
        }
      }} /> : <p role="status">{t("loading")}</p>}
    </Frame>
  );
}
