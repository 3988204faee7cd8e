import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { say } from "../state/screen";
import { count, shortDate } from "../text";
import { Domino, Icon } from "../ui/icons";
import { Frame } from "../ui/above";
import { Area, ask, Badge, doing, Empty, Ends, Field, Find, go, Head, leave, Lines, linesOf, Opened, tell, Text, Two, usePages, where } from "./parts";
import { ta } from "./text";
import { run, type Group } from "./verbs";

const kinds = () => [["multi", ta("kindMulti")], ["mail", ta("kindMail")], ["access", ta("kindAccess")]] as const;
const kindName = (k: string) => kinds().find(([x]) => x === k)?.[1] ?? k;

export function Groups() {
  const text = useSignal("");
  const removed = useSignal(false);
  const adding = useSignal(false);
  const pages = usePages<Group>("group list", () => (removed.value ? { removed: true } : text.value ? { search: text.value } : {}), removed.value ? undefined : (g) => g.name);
  const id = where.value.item;
  return (
    <>
      <Two
        label={ta("groups")} onClose={() => go("groups")}
        title={<Head title={ta("groups")}><button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addGroup")}</span></button></Head>}
        detail={id ? <One key={id} id={id} changed={pages.reload} /> : null}
      >
        <div class="tools"><Find text={text} hint={ta("searchGroups")} /><label class="check"><input type="checkbox" checked={removed.value} onChange={(e) => (removed.value = e.currentTarget.checked)} />{ta("removedOnes")}</label></div>
        <Lines pages={pages} of={(g) => g.id} selected={id} open={(g) => go("groups", g.id)} label={ta("groups")} empty={<Empty icon="group" title={text.value ? ta("nothingFound") : ta("nothing")} />}
          line={(g) => (
            <>
              <Domino of={g.address ?? g.name} size={36} />
              <span class="what"><strong>{g.name}</strong><small>{[g.address, g.description].filter(Boolean).join(" · ")}</small></span>
              {g.list && <Badge kind="plain">{ta("mailingList")}</Badge>}
              <small class="quiet">{count(g.members?.length ?? 0)}</small>
            </>
          )} />
      </Two>
      {adding.value && <Add onClose={() => (adding.value = false)} onDone={(g) => { adding.value = false; pages.reload(); go("groups", g.id); }} />}
    </>
  );
}

function Add({ onClose, onDone }: { onClose: () => void; onDone: (g: Group) => void }) {
  const name = useSignal("");
  const address = useSignal("");
  const description = useSignal("");
  const members = useSignal("");
  const kind = useSignal("multi");
  const busy = useSignal(false);
  return (
    <Frame title={ta("addGroup")} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        busy.value = true;
        void doing(async () => {
          const g = await run<Group>("group add", { name: name.value.trim(), kind: kind.value, member: linesOf(members.value), ...(address.value ? { address: address.value.trim() } : {}), ...(description.value ? { description: description.value } : {}) });
          say(ta("personAdded", g.name));
          onDone(g);
        }).finally(() => (busy.value = false));
      }}>
        <Text label={ta("name")} value={name} required autofocus name="name" />
        <Text label={ta("address")} value={address} inputMode="email" />
        <Text label={ta("description")} value={description} />
        <Field label={ta("kind")}><select value={kind.value} onChange={(e) => (kind.value = e.currentTarget.value)}>{kinds().map(([k, n]) => <option value={k}>{n}</option>)}</select></Field>
        <Area label={ta("members")} value={members} hint={ta("membersHint")} rows={4} />
        <Ends yes={ta("add")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}

function One({ id, changed }: { id: string; changed: () => void }) {
  const group = useSignal<Group | null>(null);
  const editing = useSignal(false);
  const member = useSignal("");
  const close = () => leave("groups", id);
  const load = () => void run<Group>("group show", { name: id }).then((g) => (group.value = g), (e: unknown) => { tell(e); close(); });
  useEffect(load, [id]);
  const g = group.value;
  if (!g) return <p class="loading" aria-busy="true">{ta("loading")}</p>;
  const set = (change: object, said?: string) => doing(async () => {
    group.value = await run<Group>("group set", { name: g.id, ...change });
    changed();
  }, said);
  return (
    <div class="detail">
      <Opened title={g.name} sub={g.address} face={<Domino of={g.address ?? g.name} size={52} />} onClose={close}>
        {!g.removed && <button class="button" onClick={() => (editing.value = true)}><Icon name="drafts" />{ta("edit")}</button>}
      </Opened>
      {g.removed && <p class="notice">{ta("removedAt", shortDate(g.removed))}<button class="button" onClick={() => void doing(async () => { await run("group undo", { name: g.id }); load(); changed(); }, ta("broughtBack", g.name))}>{ta("undo")}</button></p>}
      <dl class="facts">
        {g.description && <><dt>{ta("description")}</dt><dd>{g.description}</dd></>}
        <dt>{ta("kind")}</dt><dd>{kindName(g.kind)}</dd>
        {g.list && <><dt>{ta("mailingList")}</dt><dd>{g.list}</dd></>}
      </dl>
      <section class="block">
        <h2>{ta("membersCount", count(g.members?.length ?? 0))}</h2>
        {!g.removed && <form class="inline-form" onSubmit={(e) => { e.preventDefault(); void set({ add: linesOf(member.value) }).then((ok) => { if (ok) member.value = ""; }); }}>
          <Text label={ta("addMember")} value={member} required /><button class="button">{ta("add")}</button>
        </form>}
        <ul class="plain-list">{(g.members ?? []).map((m) => (
          <li key={m}><Domino of={m} size={28} /><span class="what"><span>{m}</span></span>
            {!g.removed && <button class="tool" aria-label={ta("removeMember", m)} title={ta("removeMember", m)} onClick={() => void set({ remove: [m] }, undefined).then((ok) => { if (ok) say(ta("removedSaid", m), { text: ta("undo"), run: () => void set({ add: [m] }) }); })}><Icon name="close" /></button>}</li>
        ))}</ul>
      </section>
      {!g.removed && <section class="block"><div class="buttons"><button class="button danger" onClick={() => ask(ta("removeAsk", g.name), ta("removeGroupText"), ta("remove"), () => void doing(async () => {
        await run("group remove", { name: g.id });
        changed();
        close();
        say(ta("removedSaid", g.name), { text: ta("undo"), run: () => void doing(async () => { await run("group undo", { name: g.id }); changed(); }, ta("broughtBack", g.name)) });
      }))}><Icon name="trash" />{ta("remove")}</button></div></section>}
      <p class="fine">{ta("id")} {g.id}</p>
      {editing.value && <Edit g={g} onClose={() => (editing.value = false)} save={(change) => void set(change, ta("changed", g.name)).then((ok) => { if (ok) editing.value = false; })} />}
    </div>
  );
}

function Edit({ g, onClose, save }: { g: Group; onClose: () => void; save: (change: object) => void }) {
  const name = useSignal(g.name);
  const address = useSignal(g.address ?? "");
  const description = useSignal(g.description ?? "");
  const kind = useSignal(g.kind);
  return (
    <Frame title={g.name} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        save({
          ...(name.value !== g.name ? { rename: name.value.trim() } : {}), ...(address.value !== (g.address ?? "") ? { address: address.value.trim() } : {}),
          ...(description.value !== (g.description ?? "") ? { description: description.value } : {}), ...(kind.value !== g.kind ? { kind: kind.value } : {}),
        });
      }}>
        <Text label={ta("name")} value={name} required autofocus />
        <Text label={ta("address")} value={address} inputMode="email" />
        <Text label={ta("description")} value={description} />
        <Field label={ta("kind")}><select value={kind.value} onChange={(e) => (kind.value = e.currentTarget.value)}>{kinds().map(([k, n]) => <option value={k}>{n}</option>)}</select></Field>
        <Ends yes={ta("save")} onCancel={onClose} />
      </form>
    </Frame>
  );
}
