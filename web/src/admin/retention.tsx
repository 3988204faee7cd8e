// The retention policies of the domain, and the messages that they would move or delete today.

import { useSignal } from "@preact/signals";
import { count } from "../text";
import { Frame } from "../ui/above";
import { Icon } from "../ui/icons";
import { Area, ask, Badge, doing, Empty, Ends, Field, go, Head, leave, Opened, Text, Two, useLive, where } from "./parts";
import { filled } from "./ruleform";
import { ta } from "./text";
import { run } from "./verbs";

interface Policy { name: string; on: boolean; for?: string[]; folders?: string[]; subfolders?: boolean; labels?: string[]; days: number; action: Action; flagged?: boolean }
type Action = "trash" | "delete" | "keep";
interface Tried { people: { person: string; trashed: number; deleted: number; held?: boolean }[] }

const actions: Action[] = ["trash", "delete", "keep"];
const actionName = (a: Action) => ta(`retain_${a}`);
const inWords = (p: Policy) => `${ta("afterDays", count(p.days))}: ${actionName(p.action)}`;

export function Retention() {
  const live = useLive<Policy[]>("retention list", () => ({}), 0);
  const adding = useSignal(false);
  const tried = useSignal<Tried | null>(null);
  const busy = useSignal(false);
  const policies = live.value.value ?? [];
  const open = policies.find((p) => p.name === where.value.item);
  return (
    <>
      <Two
        label={ta("retention")} onClose={() => go("retention")}
        title={<Head title={ta("retention")}><button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addPolicy")}</span></button></Head>}
        detail={open ? <One key={open.name} policy={open} reload={live.reload} /> : null}
      >
        {policies.length > 0 && <div class="tools"><button class="button" disabled={busy.value} onClick={() => {
          busy.value = true;
          void doing(async () => { tried.value = await run<Tried>("retention test", { off: true }); }).then(() => (busy.value = false));
        }}><Icon name="eye" />{ta("retentionTest")}</button></div>}
        <div class="lines-box">
          {live.value.value && policies.length === 0 && <Empty icon="clock" title={ta("nothing")} text={ta("retentionHint")} />}
          <ul class="lines" aria-label={ta("retention")}>{policies.map((p) => (
            <li key={p.name}><button class="line" aria-current={open === p} onClick={() => go("retention", p.name)}>
              <span class="round"><Icon name="clock" /></span><span class="what"><strong>{p.name}</strong><small>{inWords(p)}</small></span>
              {!p.on && <Badge kind="plain">{ta("isOff")}</Badge>}
            </button></li>
          ))}</ul>
        </div>
      </Two>
      {adding.value && <Edit title={ta("addPolicy")} policy={{ name: "", on: false, days: 365, action: "trash" }} onClose={() => (adding.value = false)} save={async (p) => {
        await run("retention add", { name: p.name, days: p.days, action: p.action, for: p.for, folder: p.folders, subfolders: p.subfolders, label: p.labels, flagged: p.flagged, off: !p.on });
        live.reload();
        go("retention", p.name);
      }} />}
      {tried.value && <Frame title={ta("retentionTest")} onClose={() => (tried.value = null)}>
        <p class="quiet">{ta("retentionTestHint")}</p>
        {tried.value.people.length === 0 ? <p>{ta("retentionNone")}</p> : <table class="table">
          <thead><tr><th>{ta("people")}</th><th class="number">{ta("retain_trash")}</th><th class="number">{ta("retain_delete")}</th></tr></thead>
          <tbody>{tried.value.people.map((p) => <tr key={p.person}><td>{p.person}{p.held && <> <Badge kind="plain">{ta("onHold")}</Badge></>}</td><td class="number">{count(p.trashed)}</td><td class="number">{count(p.deleted)}</td></tr>)}</tbody>
        </table>}
      </Frame>}
    </>
  );
}

function One({ policy: p, reload }: { policy: Policy; reload: () => void }) {
  const editing = useSignal(false);
  const turn = (on: boolean) => void doing(async () => { await run("retention set", { name: p.name, off: !on }); reload(); });
  return (
    <div class="detail">
      <Opened title={p.name} sub={inWords(p)} face={<span class="round big"><Icon name="clock" /></span>} onClose={() => go("retention")}>
        <button class="button" onClick={() => (editing.value = true)}><Icon name="drafts" />{ta("edit")}</button>
      </Opened>
      {!p.on && <p class="notice">{ta("policyIsOff")}<button class="button" onClick={() => turn(true)}>{ta("turnOn")}</button></p>}
      <dl class="facts">
        <dt>{ta("appliesTo")}</dt><dd>{p.for?.join(", ") ?? ta("everyone")}</dd>
        <dt>{ta("folders")}</dt><dd>{p.folders?.join(", ") ?? ta("allFolders")}{p.subfolders && `, ${ta("andBelow")}`}</dd>
        {p.labels && <><dt>{ta("labels")}</dt><dd>{p.labels.join(", ")}</dd></>}
        <dt>{ta("flagged")}</dt><dd>{ta(p.flagged ? "flaggedToo" : "flaggedNot")}</dd>
      </dl>
      <section class="block"><div class="buttons">
        {p.on && <button class="button" onClick={() => turn(false)}>{ta("turnOff")}</button>}
        <button class="button danger" onClick={() => ask(ta("removeAsk", p.name), ta("removePolicyText"), ta("remove"), () => void doing(async () => {
          await run("retention delete", { name: p.name });
          reload();
          leave("retention", p.name);
        }, ta("removedSaid", p.name)))}><Icon name="trash" />{ta("remove")}</button>
      </div></section>
      {editing.value && <Edit title={p.name} policy={p} onClose={() => (editing.value = false)} save={async (n) => {
        const list = (l: string[] | undefined) => (l?.length ? l : [""]);
        await run("retention set", {
          name: p.name, ...(n.name !== p.name ? { rename: n.name } : {}), days: n.days, action: n.action, for: list(n.for), folder: list(n.folders),
          subfolders: n.subfolders, label: list(n.labels), flagged: n.flagged, off: !n.on,
        });
        reload();
        if (n.name !== p.name) go("retention", n.name);
      }} />}
    </div>
  );
}

function Edit({ title, policy: p, save, onClose }: { title: string; policy: Policy; save: (p: Policy) => Promise<void>; onClose: () => void }) {
  const name = useSignal(p.name);
  const days = useSignal(String(p.days));
  const action = useSignal(p.action);
  const people = useSignal((p.for ?? []).join("\n"));
  const folders = useSignal((p.folders ?? []).join("\n"));
  const labels = useSignal((p.labels ?? []).join("\n"));
  const below = useSignal(p.subfolders ?? false);
  const flagged = useSignal(p.flagged ?? false);
  const on = useSignal(p.on);
  const busy = useSignal(false);
  const lines = (value: typeof people) => filled(value.value.split("\n")); // a name may have a comma
  const check = (value: typeof on, text: string) => <label class="check"><input type="checkbox" checked={value.value} onChange={(e) => (value.value = e.currentTarget.checked)} />{text}</label>;
  return (
    <Frame title={title} onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        busy.value = true;
        void doing(() => save({
          name: name.value.trim(), on: on.value, for: lines(people), folders: lines(folders), subfolders: below.value,
          labels: lines(labels), days: Number(days.value), action: action.value, flagged: flagged.value,
        }), ta("saved")).then((ok) => { busy.value = false; if (ok) onClose(); });
      }}>
        <Text label={ta("name")} value={name} required autofocus name="name" />
        <div class="two">
          <Field label={ta("days")} hint={ta("daysHint")}><input type="number" min={1} required value={days.value} onInput={(e) => (days.value = e.currentTarget.value)} /></Field>
          <Field label={ta("then")}><select value={action.value} onChange={(e) => (action.value = e.currentTarget.value as Action)}>{actions.map((a) => <option value={a}>{actionName(a)}</option>)}</select></Field>
        </div>
        <Area label={ta("appliesTo")} value={people} hint={ta("forHint")} rows={2} />
        <Area label={ta("folders")} value={folders} hint={ta("foldersHint")} rows={2} />
        {check(below, ta("andBelow"))}
        <Area label={ta("labels")} value={labels} hint={ta("labelsHint")} rows={2} />
        {check(flagged, ta("flaggedToo"))}
        {check(on, ta("policyOn"))}
        <Ends yes={ta("save")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}
