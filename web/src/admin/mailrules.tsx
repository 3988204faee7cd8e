// The mail rules of the domain: their order, and a form for conditions and actions.

import { useSignal, type Signal } from "@preact/signals";
import { count } from "../text";
import { Frame } from "../ui/above";
import { Icon } from "../ui/icons";
import { ask, Badge, doing, Empty, Ends, Field, go, Head, leave, Opened, Text, Two, useLive, where } from "./parts";
import { choices, conditions, emptyRule, readRule, writeRule, type Condition, type RuleForm, type Side } from "./ruleform";
import { ta } from "./text";
import { run } from "./verbs";

interface MailRule { position: number; name: string; on: boolean; matches: number; rule: string; error?: string }

const linesIn = (text: string) => text.split("\n");

export function MailRules() {
  const live = useLive<MailRule[]>("rules list", () => ({}), 30);
  const adding = useSignal(false);
  const rules = live.value.value ?? [];
  const open = rules.find((r) => r.name === where.value.item);
  return (
    <>
      <Two
        label={ta("mailRules")} onClose={() => go("rules")}
        title={<Head title={ta("mailRules")}><button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addRule")}</span></button></Head>}
        detail={open ? <One key={open.name} rule={open} last={rules.length} reload={live.reload} /> : null}
      >
        <div class="lines-box">
          {live.value.value && rules.length === 0 && <Empty icon="rule" title={ta("nothing")} text={ta("mailRulesHint")} />}
          <ol class="lines" aria-label={ta("mailRules")}>{rules.map((r) => (
            <li key={r.name}><button class="line" aria-current={open === r} onClick={() => go("rules", r.name)}>
              <span class="round">{r.position}</span><span class="what"><strong>{r.name}</strong><small>{r.error ?? ta("ruleMatches", count(r.matches))}</small></span>
              {r.error ? <Badge kind="bad">{ta("ruleUnreadable")}</Badge> : !r.on && <Badge kind="plain">{ta("isOff")}</Badge>}
            </button></li>
          ))}</ol>
        </div>
      </Two>
      {adding.value && <Edit title={ta("addRule")} name="" form={emptyRule()} onClose={() => (adding.value = false)} save={async (name, rule) => {
        await run("rules add", { name, rule });
        live.reload();
        go("rules", name);
      }} />}
    </>
  );
}

function One({ rule, last, reload }: { rule: MailRule; last: number; reload: () => void }) {
  const editing = useSignal(false);
  const form = readRule(rule.rule);
  const act = (verb: string, args: object = {}) => void doing(async () => { await run(`rules ${verb}`, { name: rule.name, ...args }); reload(); });
  return (
    <div class="detail">
      <Opened title={rule.name} sub={ta("ruleMatches", count(rule.matches))} face={<span class="round big">{rule.position}</span>} onClose={() => go("rules")}>
        {form && <button class="button" onClick={() => (editing.value = true)}><Icon name="drafts" />{ta("edit")}</button>}
      </Opened>
      {rule.error && <p class="notice" role="alert">{rule.error}</p>}
      {!rule.on && <p class="notice">{ta("ruleIsOff")}<button class="button" onClick={() => act("on")}>{ta("turnOn")}</button></p>}
      {form ? <Told form={form} /> : <pre class="code">{rule.rule}</pre>}
      <section class="block"><div class="buttons">
        <button class="button" disabled={rule.position === 1} onClick={() => act("move", { position: String(rule.position - 1) })}><Icon name="up" />{ta("earlier")}</button>
        <button class="button" disabled={rule.position === last} onClick={() => act("move", { position: String(rule.position + 1) })}><Icon name="down" />{ta("later")}</button>
        {rule.on && <button class="button" onClick={() => act("off")}>{ta("turnOff")}</button>}
        <button class="button danger" onClick={() => ask(ta("removeAsk", rule.name), ta("removeRuleText"), ta("remove"), () => void doing(async () => {
          await run("rules remove", { name: rule.name });
          reload();
          leave("rules", rule.name);
        }, ta("removedSaid", rule.name)))}><Icon name="trash" />{ta("remove")}</button>
      </div></section>
      {editing.value && form && <Edit title={rule.name} name={rule.name} form={form} onClose={() => (editing.value = false)} save={async (name, text) => {
        await run("rules edit", { name: rule.name, rule: text, ...(name !== rule.name ? { rename: name } : {}) });
        reload();
        if (name !== rule.name) go("rules", name);
      }} />}
    </div>
  );
}

const valueName = (c: Condition, value: string) => (c in choices ? ta(`value_${value}` as Parameters<typeof ta>[0]) : value);

/** A rule in words. */
function Told({ form }: { form: RuleForm }) {
  const told = (side: Side) => Object.entries(form[side]).map(([name, values]) => (
    <li key={name}>{ta(`condition_${name as Condition}`)}: {values.map((v) => valueName(name as Condition, v)).join(", ")}</li>
  ));
  const when = told("when");
  const unless = told("unless");
  return (
    <>
      <section class="block"><h2>{ta("ruleWhen")}</h2>{when.length > 0 ? <ul class="told">{when}</ul> : <p>{ta("ruleEvery")}</p>}</section>
      {unless.length > 0 && <section class="block"><h2>{ta("ruleUnless")}</h2><ul class="told">{unless}</ul></section>}
      <section class="block"><h2>{ta("ruleDo")}</h2><ul class="told">
        {form.refuse && <li>{ta("action_refuse")}: {form.refuse}</li>}
        {form.journal && <li>{ta("action_journal")}</li>}
        {form.move && <li>{ta("action_move")}: {form.move}</li>}
        {form.text && <li class="pre">{ta("action_text")}: {form.text}</li>}
        {form.add.length > 0 && <li>{ta("action_add")}: {form.add.join(", ")}</li>}
        {form.replace.length > 0 && <li>{ta("action_replace")}: {form.replace.join(", ")}</li>}
        {form.stop && <li>{ta("action_stop")}</li>}
      </ul></section>
    </>
  );
}

function Edit({ title, name: before, form: start, save, onClose }: { title: string; name: string; form: RuleForm; save: (name: string, rule: string) => Promise<void>; onClose: () => void }) {
  const name = useSignal(before);
  const form = useSignal(start);
  const busy = useSignal(false);
  const set = (change: Partial<RuleForm>) => (form.value = { ...form.value, ...change });
  const switchOf = (key: "journal" | "stop") => <label class="check"><input type="checkbox" checked={form.value[key]} onChange={(e) => set({ [key]: e.currentTarget.checked })} />{ta(`action_${key}`)}</label>;
  const lineOf = (key: "refuse" | "move", hint?: string) => <Field label={ta(`action_${key}`)} {...(hint ? { hint } : {})}><input value={form.value[key]} onInput={(e) => set({ [key]: e.currentTarget.value })} /></Field>;
  const listOf = (key: "add" | "replace") => <Field label={ta(`action_${key}`)} hint={ta("onePerLine")}><textarea rows={2} spellcheck={false} value={form.value[key].join("\n")} onInput={(e) => set({ [key]: linesIn(e.currentTarget.value) })} /></Field>;
  return (
    <Frame title={title} onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        busy.value = true;
        void doing(() => save(name.value.trim(), writeRule(form.value)), ta("saved")).then((ok) => { busy.value = false; if (ok) onClose(); });
      }}>
        <Text label={ta("name")} value={name} required autofocus name="name" />
        <Conditions side="when" form={form} />
        <Conditions side="unless" form={form} />
        <fieldset class="set"><legend>{ta("ruleDo")}</legend>
          {lineOf("refuse", ta("refuseHint"))}
          {lineOf("move")}
          <Field label={ta("action_text")}><textarea rows={2} value={form.value.text} onInput={(e) => set({ text: e.currentTarget.value })} /></Field>
          {listOf("add")}
          {listOf("replace")}
          {switchOf("journal")}
          {switchOf("stop")}
        </fieldset>
        <Ends yes={ta("save")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}

/** The conditions of one side, and a menu of those that it does not have yet. */
function Conditions({ side, form }: { side: Side; form: Signal<RuleForm> }) {
  const values = form.value[side];
  const set = (name: Condition, list: string[] | undefined) => {
    const { [name]: _, ...rest } = form.value[side];
    form.value = { ...form.value, [side]: list ? { ...form.value[side], [name]: list } : rest };
  };
  const free = conditions.filter((c) => !(c in values));
  return (
    <fieldset class="set" data-side={side}><legend>{ta(side === "when" ? "ruleWhen" : "ruleUnless")}</legend>
      {Object.entries(values).map(([key, list]) => {
        const c = key as Condition;
        const label = ta(`condition_${c}`);
        return (
          <div key={c} class="condition">
            {c in choices
              ? <div role="group" aria-label={label}><span>{label}</span>{choices[c as keyof typeof choices].map((v) => <label class="check"><input type="checkbox" checked={list.includes(v)} onChange={(e) => set(c, e.currentTarget.checked ? [...list, v] : list.filter((x) => x !== v))} />{valueName(c, v)}</label>)}</div>
              : c === "larger"
                ? <Field label={label}><input value={list[0] ?? ""} required pattern=".*\S.*" placeholder="10 MB" onInput={(e) => set(c, [e.currentTarget.value])} /></Field>
                : <Field label={label} hint={ta(`hint_${c as "from"}`)}><textarea rows={2} spellcheck={false} value={list.join("\n")} onInput={(e) => set(c, linesIn(e.currentTarget.value))} /></Field>}
            <button type="button" class="tool" aria-label={ta("removeMember", label)} title={ta("removeMember", label)} onClick={() => set(c, undefined)}><Icon name="close" /></button>
          </div>
        );
      })}
      {free.length > 0 && <Field label={ta("addCondition")}><select value="" onChange={(e) => { const c = e.currentTarget.value as Condition; e.currentTarget.value = ""; if (c) set(c, []); }}><option value="" />{free.map((c) => <option value={c}>{ta(`condition_${c}`)}</option>)}</select></Field>}
    </fieldset>
  );
}
