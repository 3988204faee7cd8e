import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { refusalIn, whyOf } from "../jmap/client";
import type { Identity, Vacation } from "../jmap/types";
import { identities } from "../state/outgoing";
import { allowed, disallow } from "../state/pictures";
import { prefer, preferences } from "../state/prefs";
import { say, sheet } from "../state/screen";
import { account, attempt, client, offers } from "../state/session";
import { Icon } from "./icons";
import { lazy } from "./lazy";
import { Blocked } from "./sender";
import { textToHTML } from "./drafts";
import { fullDate, languages, t, type Language } from "../text";

const Rules = lazy(() => import("./rulebook").then((m) => m.Rules));
const CalendarSettings = lazy(() => import("./calendar/settings").then((m) => m.CalendarSettings));
const Passkeys = lazy(() => import("./passkeys").then((m) => m.Passkeys));
const Signature = lazy(() => import("./signature").then((m) => m.Signature));

/** The senders whose pictures are always shown; each can be taken out. */
function PictureSenders() {
  const senders = Object.entries(allowed.value);
  return (
    <section>
      <h3>{t("pictureSenders")}</h3>
      {senders.length === 0 && <p>{t("pictureSendersNone")}</p>}
      <ul class="picture-senders">
        {senders.map(([address, { proven }]) => (
          <li><span>{address}{proven && <span class="quiet"> · {t("provenOnly")}</span>}</span>
            <button class="tool" aria-label={t("stopPictures", address)} title={t("stopPictures", address)} onClick={() => disallow(address)}><Icon name="close" /></button></li>
        ))}
      </ul>
    </section>
  );
}

interface Device {
  id: string;
  current: boolean;
  used: string;
  address?: string;
  user_agent?: string;
}

export function Settings() {
  const p = preferences.value;
  return (
    <>
      <section>
        <h3>{t("general")}</h3>
        <div class="two">
          <label class="field"><span>{t("language")}</span>
            <select value={p.language} onChange={(e) => prefer({ language: e.currentTarget.value as Language })}>{Object.entries(languages).map(([k, n]) => <option value={k}>{n}</option>)}</select></label>
          <label class="field"><span>{t("theme")}</span>
            <select value={p.theme} onChange={(e) => prefer({ theme: e.currentTarget.value as typeof p.theme })}><option value="auto">{t("themeAuto")}</option><option value="light">{t("themeLight")}</option><option value="dark">{t("themeDark")}</option></select></label>
          <label class="field"><span>{t("density")}</span>
            <select value={p.density} onChange={(e) => prefer({ density: e.currentTarget.value as typeof p.density })}><option value="comfortable">{t("comfortable")}</option><option value="compact">{t("compact")}</option></select></label>
          <label class="field"><span>{t("undoTime")}</span>
            <select value={String(p.undoSeconds)} onChange={(e) => prefer({ undoSeconds: Number(e.currentTarget.value) })}>{[0, 5, 8, 15, 30].map((s) => <option value={String(s)}>{t("seconds", s)}</option>)}</select></label>
        </div>
        <label class="check"><input type="checkbox" checked={p.threads} onChange={(e) => prefer({ threads: e.currentTarget.checked })} />{t("threadsOn")}</label>
        <label class="check"><input type="checkbox" checked={p.notify} onChange={(e) => {
          const on = e.currentTarget.checked;
          if (!on || typeof Notification === "undefined") return prefer({ notify: false });
          void Notification.requestPermission().then((granted) => {
            prefer({ notify: granted === "granted" });
            if (granted !== "granted") say(t("notificationsDenied"));
          });
          return undefined;
        }} />{t("notifications")}</label>
      </section>
      {offers("urn:ietf:params:jmap:calendars") && <CalendarSettings />}
      <section>
        <h3>{t("identities")}</h3>
        {identities.value.map((i) => <OneIdentity key={i.id} i={i} />)}
      </section>
      <Away />
      <Rules />
      <Blocked />
      <PictureSenders />
      <Devices />
      <Passkeys name={deviceName(navigator.userAgent)} />
      <div class="ends"><button class="button primary" onClick={() => (sheet.value = null)}>{t("close")}</button></div>
    </>
  );
}

function OneIdentity({ i }: { i: Identity }) {
  const name = useSignal(i.name);
  const signature = useSignal({ html: i.htmlSignature, text: i.textSignature });
  const save = () => void attempt(async () => {
    const answer = await client.call("Identity/set", { accountId: account.value, update: { [i.id]: { name: name.value, textSignature: signature.value.text, htmlSignature: signature.value.html } } });
    const problem = refusalIn(answer);
    if (problem) return say(t("refusedByServer", whyOf(problem)));
    identities.value = identities.value.map((x) => (x.id === i.id ? { ...x, name: name.value, textSignature: signature.value.text, htmlSignature: signature.value.html } : x));
    return say(t("saved"));
  });
  return (
    <form class="two" onSubmit={(e) => { e.preventDefault(); save(); }}>
      <label class="field"><span>{t("displayName")} · {i.email}</span><input value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} /></label>
      <div class="field"><span>{t("signature")}</span><Signature html={i.htmlSignature || textToHTML(i.textSignature)} label={`${t("signature")} · ${i.email}`} changed={(html, text) => (signature.value = text.trim() ? { html, text } : { html: "", text: "" })} /></div>
      <button class="button">{t("save")}</button>
    </form>
  );
}

const two = (n: number) => String(n).padStart(2, "0");
const dayOf = (d: Date) => `${String(d.getFullYear()).padStart(4, "0")}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
/** A time as JMAP has it (RFC 8620 §1.4). */
const utc = (d: Date) => d.toISOString().replace(/\.\d+Z$/u, "Z");

function Away() {
  const v = useSignal<Vacation | null>(null);
  useEffect(() => {
    void attempt(async () => {
      const answer = await client.call("VacationResponse/get", { accountId: account.value, ids: null });
      v.value = (answer["list"] as Vacation[])[0] ?? null;
    }).catch(() => undefined);
  }, []);
  const x = v.value;
  if (!x) return null;
  const set = (change: Partial<Vacation>) => (v.value = { ...x, ...change });
  // Days are those of where one is; the last is one of them (the lite mode has the midnight behind it).
  const day = (iso: string | null, last = false) => (iso ? dayOf(new Date(Date.parse(iso) - (last ? 1000 : 0))) : "");
  const begins = (d: string) => (d ? utc(new Date(`${d}T00:00:00`)) : null);
  const ends = (d: string) => (d ? utc(new Date(`${d}T23:59:59`)) : null);
  const save = () => void attempt(async () => {
    const { isEnabled, fromDate, toDate, subject, textBody } = v.value!;
    const answer = await client.call("VacationResponse/set", { accountId: account.value, update: { singleton: { isEnabled, fromDate, toDate, subject, textBody } } });
    const problem = refusalIn(answer);
    say(problem ? t("refusedByServer", whyOf(problem)) : t("saved"));
  });
  return (
    <section>
      <h3>{t("vacation")}</h3>
      <form onSubmit={(e) => { e.preventDefault(); save(); }}>
        <label class="check"><input type="checkbox" checked={x.isEnabled} onChange={(e) => set({ isEnabled: e.currentTarget.checked })} />{t("vacationOn")}</label>
        <div class="two">
          <label class="field"><span>{t("vacationFrom")}</span><input type="date" value={day(x.fromDate)} onInput={(e) => set({ fromDate: begins(e.currentTarget.value) })} /></label>
          <label class="field"><span>{t("vacationTo")}</span><input type="date" value={day(x.toDate, true)} onInput={(e) => set({ toDate: ends(e.currentTarget.value) })} /></label>
        </div>
        <label class="field"><span>{t("vacationSubject")}</span><input value={x.subject ?? ""} onInput={(e) => set({ subject: e.currentTarget.value || null })} /></label>
        <label class="field"><span>{t("vacationText")}</span><textarea value={x.textBody ?? ""} onInput={(e) => set({ textBody: e.currentTarget.value || null })} /></label>
        <button class="button">{t("save")}</button>
      </form>
    </section>
  );
}

const programs: [RegExp, string][] = [[/Edg\//u, "Edge"], [/OPR\//u, "Opera"], [/Firefox\//u, "Firefox"], [/Chrome\//u, "Chrome"], [/Safari\//u, "Safari"]];
const systems: [RegExp, string][] = [[/Android/u, "Android"], [/iPhone|iPad/u, "iOS"], [/Windows/u, "Windows"], [/Mac OS X/u, "macOS"], [/CrOS/u, "ChromeOS"], [/Linux/u, "Linux"]];

/** A browser and its system by the words of its User-Agent, else the User-Agent. */
function deviceName(agent: string): string {
  const found = [programs, systems].flatMap((list) => list.find(([is]) => is.test(agent))?.[1] ?? []);
  return found.join(" · ") || agent || t("unknownDevice");
}

function Devices() {
  const list = useSignal<Device[]>([]);
  const read = () => void attempt(async () => {
    const response = await client.fetch("/auth/sessions", { headers: { Accept: "application/json" } });
    if (response.ok) list.value = (await response.json()) as Device[];
  });
  useEffect(read, []);
  const end = (body: object) => void attempt(async () => {
    await client.fetch("/auth/sessions/end", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    read();
  });
  return (
    <section>
      <h3>{t("security")}</h3>
      <p><a href="/auth/">{t("secondFactor")}</a></p>
      <ul class="devices">
        {list.value.map((d) => (
          <li class="device"><span class="name" title={d.user_agent}>{deviceName(d.user_agent ?? "")}{d.current && ` · ${t("thisDevice")}`}</span><span class="quiet">{[d.address, fullDate(d.used)].filter(Boolean).join(" · ")}</span>
            {!d.current && <button class="button" onClick={() => end({ id: d.id })}>{t("endSession")}</button>}</li>
        ))}
      </ul>
      {list.value.length > 1 && <button class="button danger" onClick={() => end({ others: true })}>{t("endOthers")}</button>}
    </section>
  );
}
