import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { say } from "../state/screen";
import { shortDate, size, t } from "../text";
import { Domino, Icon } from "../ui/icons";
import { Frame } from "../ui/above";
import { Area, ask, Badge, doing, Empty, Ends, Field, Find, go, Head, leave, Lines, linesOf, makePassword, Opened, sizeText, tell, Text, Two, usePages, where } from "./parts";
import { ta } from "./text";
import { run, type AppPassword, type Database, type Done, type User } from "./verbs";

export function People() {
  const text = useSignal("");
  const removed = useSignal(false);
  const adding = useSignal(false);
  const pages = usePages<User>("user list", () => (removed.value ? { removed: true } : text.value ? { search: text.value } : {}), removed.value ? undefined : (u) => u.name);
  const id = where.value.item;
  return (
    <>
      <Two
        label={ta("people")}
        onClose={() => go("people")}
        title={<Head title={ta("people")}>
          <button class="button primary" onClick={() => (adding.value = true)}><Icon name="plus" /><span class="only-wide-text">{ta("addPerson")}</span></button>
        </Head>}
        detail={id ? <Person key={id} id={id} changed={pages.reload} /> : null}
      >
        <div class="tools"><Find text={text} hint={ta("searchPeople")} /><label class="check"><input type="checkbox" checked={removed.value} onChange={(e) => (removed.value = e.currentTarget.checked)} />{ta("removedOnes")}</label></div>
        <Lines pages={pages} of={(u) => u.id} selected={id} open={(u) => go("people", u.id)} label={ta("people")}
          empty={<Empty icon="shared" title={text.value ? ta("nothingFound") : ta("nothing")} />}
          line={(u) => (
            <>
              <Domino of={u.address ?? u.name} size={36} />
              <span class="what"><strong>{u.name}</strong><small>{u.address ?? u.short}</small></span>
              {u.roles?.some((r) => r.toLowerCase() === "admin") && <Badge kind="plain">Admin</Badge>}
              {u.disabled && <Badge kind="warn">{ta("disabled")}</Badge>}
              {u.removed && <Badge kind="bad">{ta("removedAt", shortDate(u.removed))}</Badge>}
            </>
          )} />
      </Two>
      {adding.value && <AddPerson onClose={() => (adding.value = false)} onDone={(u) => { adding.value = false; pages.reload(); go("people", u.id); }} />}
    </>
  );
}

function PasswordField({ value, label }: { value: { value: string }; label: string }) {
  const seen = useSignal(false);
  return (
    <Field label={label} hint={ta("passwordHint")}>
      <span class="with-button">
        <input {...({ type: seen.value ? "text" : "password" } as object)} name="new-password" minLength={8} required autocomplete="new-password" value={value.value} onInput={(e) => (value.value = e.currentTarget.value)} />
        <button type="button" class="button" onClick={() => { value.value = makePassword(); seen.value = true; }}>{ta("makePassword")}</button>
      </span>
    </Field>
  );
}

function AddPerson({ onClose, onDone }: { onClose: () => void; onDone: (u: User) => void }) {
  const name = useSignal("");
  const short = useSignal("");
  const address = useSignal("");
  const password = useSignal("");
  const quota = useSignal("");
  const admin = useSignal(false);
  const busy = useSignal(false);
  const submit = async () => {
    busy.value = true;
    await doing(async () => {
      const u = await run<User>("user add", {
        name: name.value.trim(), password: password.value, ...(short.value ? { short: short.value.trim() } : {}), ...(address.value ? { address: address.value.trim() } : {}),
        ...(quota.value ? { quota: quota.value } : {}), ...(admin.value ? { role: ["Admin"] } : {}),
      });
      say(ta("personAdded", u.name));
      onDone(u);
    });
    busy.value = false;
  };
  return (
    <Frame title={ta("addPerson")} small onClose={onClose}>
      <form class="form" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <Text label={ta("fullName")} value={name} required autofocus name="name" />
        <div class="two"><Text label={ta("shortName")} value={short} name="short" /><Text label={ta("address")} value={address} inputMode="email" name="address" /></div>
        <PasswordField label={ta("password")} value={password} />
        <Text label={ta("quota")} value={quota} hint={ta("quotaHint")} name="quota" />
        <label class="check"><input type="checkbox" checked={admin.value} onChange={(e) => (admin.value = e.currentTarget.checked)} />{ta("isAdmin")}</label>
        <Ends yes={ta("add")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}

function Person({ id, changed }: { id: string; changed: () => void }) {
  const user = useSignal<User | null>(null);
  const file = useSignal<Database | null>(null);
  const editing = useSignal(false);
  const setting = useSignal(false);
  const close = () => leave("people", id);
  const load = () => void run<User>("user show", { name: id }).then((u) => {
    user.value = u;
    if (u.database && !u.removed) void run<Database>("db show", { name: u.database }).then((d) => (file.value = d), () => undefined);
  }, (e: unknown) => { tell(e); close(); });
  useEffect(load, [id]);
  const u = user.value;
  if (!u) return <p class="loading" aria-busy="true">{ta("loading")}</p>;
  const did = (said: string) => { say(said); load(); changed(); };
  const bytes = file.value?.folders?.reduce((n, f) => n + f.bytes, 0) ?? 0;
  const messages = file.value?.folders?.reduce((n, f) => n + f.messages, 0) ?? 0;
  const able = (disabled: boolean) => void doing(async () => {
    await run("user set", { name: u.id, disabled });
    did(ta(disabled ? "disabledSaid" : "enabledSaid", u.name));
  });
  return (
    <div class="detail">
      <Opened title={u.name} sub={u.address} face={<Domino of={u.address ?? u.name} size={52} />} onClose={close}>
        {!u.removed && <button class="button" onClick={() => (editing.value = true)}><Icon name="drafts" />{ta("edit")}</button>}
      </Opened>
      {u.removed ? (
        <p class="notice">{ta("removedAt", shortDate(u.removed))}
          <button class="button" onClick={() => void doing(async () => { await run("user undo", { name: u.id }); did(ta("broughtBack", u.name)); })}>{ta("undo")}</button></p>
      ) : u.disabled && <p class="notice">{ta("disabled")}<button class="button" onClick={() => able(false)}>{ta("enable")}</button></p>}
      <dl class="facts">
        <dt>{ta("shortName")}</dt><dd>{u.short ?? "–"}</dd>
        {u.aliases && <><dt>{ta("aliases")}</dt><dd>{u.aliases.join(", ")}</dd></>}
        <dt>{ta("roles")}</dt><dd>{u.roles?.join(", ") ?? ta("none")}</dd>
        <dt>{ta("quota")}</dt><dd>{u.quota ? sizeText(u.quota) : ta("noLimit")}</dd>
        <dt>{ta("secondFactor")}</dt><dd>{u.second_factor ? `${ta("since", shortDate(u.second_factor))} · ${ta("recoveryLeft", u.recovery_codes ?? 0)}` : ta("none")}</dd>
        {u.forward && <><dt>{ta("forwarding")}</dt><dd>{u.forward.join(", ")}</dd></>}
        {u.vacation && <><dt>{ta("vacation")}</dt><dd>{u.vacation}</dd></>}
      </dl>
      {file.value && (
        <section class="block">
          <h2>{ta("mailFile")}</h2>
          <p>{size(bytes)}{u.quota ? ` / ${sizeText(u.quota)}` : ""} · {ta("messages", messages)} · <a href={`#/databases/${file.value.id}`}>{ta("details")}</a></p>
          {!!u.quota && <div class={`meter ${bytes > u.quota * 0.9 ? "full" : ""}`} role="img" aria-label={`${Math.round((bytes / u.quota) * 100)} %`}><i ref={(e: HTMLElement | null) => { if (e) e.style.width = `${Math.min(100, (bytes / u.quota!) * 100)}%`; }} /></div>}
        </section>
      )}
      {!u.removed && <>
        <AppPasswords u={u} load={load} />
        {u.passkeys && <Passkeys u={u} load={load} />}
        <section class="block">
          <h2>{t("security")}</h2>
          <div class="buttons">
            <button class="button" onClick={() => (setting.value = true)}><Icon name="key" />{ta("resetPassword")}</button>
            <button class="button" onClick={() => ask(ta("endSessionsAsk", u.name), ta("endSessionsText"), ta("endSessions"), () => void doing(async () => { const d = await run<Done>("session end", { person: u.id }); say(d.done); }))}><Icon name="out" />{ta("endSessions")}</button>
            {u.second_factor && <button class="button danger" onClick={() => ask(ta("totpOffAsk", u.name), ta("totpOffText"), ta("totpOff"), () => void doing(async () => { await run("user totp off", { name: u.id }); did(ta("changed", u.name)); }))}>{ta("totpOff")}</button>}
            {!u.disabled && <button class="button" onClick={() => ask(ta("disableAsk", u.name), ta("disableText"), ta("disable"), () => able(true))}><Icon name="pause" />{ta("disable")}</button>}
            <button class="button danger" onClick={() => ask(ta("removeAsk", u.name), ta("removePersonText"), ta("remove"), () => void doing(async () => {
              await run("user remove", { name: u.id });
              changed();
              close();
              say(ta("removedSaid", u.name), { text: ta("undo"), run: () => void doing(async () => { await run("user undo", { name: u.id }); changed(); }, ta("broughtBack", u.name)) });
            }))}><Icon name="trash" />{ta("remove")}</button>
          </div>
        </section>
      </>}
      <p class="fine">{ta("id")} {u.id}</p>
      {editing.value && <EditPerson u={u} onClose={() => (editing.value = false)} onDone={(x) => { editing.value = false; did(ta("changed", x.name)); }} />}
      {setting.value && <NewPassword u={u} onClose={() => (setting.value = false)} />}
    </div>
  );
}

function EditPerson({ u, onClose, onDone }: { u: User; onClose: () => void; onDone: (u: User) => void }) {
  const name = useSignal(u.name);
  const short = useSignal(u.short ?? "");
  const address = useSignal(u.address ?? "");
  const aliases = useSignal((u.aliases ?? []).join("\n"));
  const quota = useSignal(sizeText(u.quota));
  const warning = useSignal(sizeText(u.warning));
  const limit = useSignal(sizeText(u.size_limit));
  const admin = useSignal(u.roles?.some((r) => r.toLowerCase() === "admin") ?? false);
  const busy = useSignal(false);
  const submit = async () => {
    busy.value = true;
    const roles = (u.roles ?? []).filter((r) => r.toLowerCase() !== "admin").concat(admin.value ? ["Admin"] : []);
    // Only what was changed is sent: two who change different things at one time do not undo each other's.
    const change: Record<string, unknown> = {};
    const put = (key: string, now: unknown, before: unknown) => { if (JSON.stringify(now) !== JSON.stringify(before)) change[key] = now; };
    put("rename", name.value.trim(), u.name);
    put("short", short.value.trim(), u.short ?? "");
    put("address", address.value.trim(), u.address ?? "");
    put("alias", linesOf(aliases.value), u.aliases ?? []);
    put("role", roles, u.roles ?? []);
    for (const [key, v, before] of [["quota", quota, u.quota], ["warning", warning, u.warning], ["size_limit", limit, u.size_limit]] as const) if (v.value !== sizeText(before)) change[key] = v.value.trim() || "0";
    await doing(async () => onDone(await run<User>("user set", { name: u.id, ...change })));
    busy.value = false;
  };
  return (
    <Frame title={u.name} onClose={onClose} >
      <form class="form" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <div class="two"><Text label={ta("fullName")} value={name} required autofocus /><Text label={ta("shortName")} value={short} /></div>
        <div class="two"><Text label={ta("address")} value={address} inputMode="email" /><Area label={ta("aliases")} value={aliases} hint={ta("onePerLine")} rows={2} /></div>
        <div class="two three"><Text label={ta("quota")} value={quota} hint={ta("quotaHint")} name="quota" /><Text label={ta("warnAt")} value={warning} /><Text label={ta("sizeLimit")} value={limit} /></div>
        <label class="check"><input type="checkbox" checked={admin.value} onChange={(e) => (admin.value = e.currentTarget.checked)} />{ta("isAdmin")}</label>
        <Ends yes={ta("save")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}

function NewPassword({ u, onClose }: { u: User; onClose: () => void }) {
  const password = useSignal("");
  const busy = useSignal(false);
  return (
    <Frame title={ta("resetPassword")} small onClose={onClose}>
      <form class="form" onSubmit={(e) => {
        e.preventDefault();
        busy.value = true;
        void doing(async () => run("user password", { name: u.id, password: password.value }), ta("passwordSet", u.name)).then((done) => { busy.value = false; if (done) onClose(); });
      }}>
        <p>{ta("resetText", u.name)}</p>
        <PasswordField label={ta("newPassword")} value={password} />
        <Ends yes={ta("save")} busy={busy.value} onCancel={onClose} />
      </form>
    </Frame>
  );
}

function Passkeys({ u, load }: { u: User; load: () => void }) {
  return (
    <section class="block">
      <h2>{ta("passkeys")}</h2>
      <ul class="plain-list">{u.passkeys!.map((k) => (
        <li key={k.id}><Icon name="key" /><span class="what"><span>{k.name}</span><small>{ta("created")} {shortDate(k.created)}{k.used ? ` · ${ta("lastUsed")} ${shortDate(k.used)}` : ""}</small></span>
          <button class="button danger" onClick={() => ask(ta("passkeyRemoveAsk", k.name), ta("passkeyRemoveText"), ta("passkeyRemove"), () => void doing(async () => { await run("user passkey remove", { name: u.id, id: k.id }); load(); }, ta("saved")))}>{ta("passkeyRemove")}</button></li>
      ))}</ul>
    </section>
  );
}

function AppPasswords({ u, load }: { u: User; load: () => void }) {
  const label = useSignal("");
  const made = useSignal<AppPassword | null>(null);
  return (
    <section class="block">
      <h2>{ta("appPasswords")}</h2>
      {(u.app_passwords ?? []).length > 0 && <ul class="plain-list">{u.app_passwords!.map((a) => (
        <li key={a.id}><Icon name="key" /><span class="what"><span>{a.label || a.id}</span><small>…{a.last4} · {a.created ? shortDate(a.created) : ""}</small></span>
          <button class="button danger" onClick={() => ask(ta("appPasswordEndAsk", a.label || a.id), ta("appPasswordEndText"), ta("appPasswordEnd"), () => void doing(async () => { await run("user app-password remove", { name: u.id, id: a.id }); load(); }, ta("saved")))}>{ta("appPasswordEnd")}</button></li>
      ))}</ul>}
      {made.value && <p class="notice secret">{ta("appPasswordShown")} <code>{made.value.secret}</code><CopyButton text={made.value.secret ?? ""} /></p>}
      <form class="inline-form" onSubmit={(e) => {
        e.preventDefault();
        void doing(async () => {
          made.value = await run<AppPassword>("user app-password add", { name: u.id, label: label.value.trim() });
          label.value = "";
          load();
        });
      }}>
        <Text label={ta("appPasswordLabel")} value={label} /><button class="button">{ta("appPasswordNew")}</button>
      </form>
    </section>
  );
}

export function CopyButton({ text, label }: { text: string; label?: string }) {
  return <button type="button" class="button" onClick={() => void navigator.clipboard?.writeText(text).then(() => say(ta("copied")), () => undefined)}>{label ?? ta("copy")}</button>;
}

