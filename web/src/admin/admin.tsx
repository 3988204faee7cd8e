// Administration in the browser: the frame of its pages.

import "../look/admin.css";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { passkeyHost, waysToSignIn, type Failed } from "../state/passkeys";
import { preferences } from "../state/prefs";
import { openMenu, sheet, sideOpen } from "../state/screen";
import { online, person, type SignInProblem } from "../state/session";
import { t } from "../text";
import { ty } from "../text/passkeys";
import { Ask, Frame, Menu, Toasts } from "../ui/above";
import { Domino, DominoFace, Icon, type IconName } from "../ui/icons";
import { leave } from "../ui/leave";
import { Cluster } from "./cluster";
import { Console } from "./console";
import { Databases } from "./databases";
import { Domains } from "./domains";
import { Events } from "./events";
import { Groups } from "./groups";
import { Log } from "./log";
import { MailRules } from "./mailrules";
import { Overview } from "./overview";
import { Ends, go, Text, where } from "./parts";
import { People } from "./people";
import { Queue } from "./queue";
import { Retention } from "./retention";
import { Sessions } from "./sessions";
import { Statistics } from "./stats";
import { ta } from "./text";
import { again, confirmSignIn, confirmWithPasskey, type Has } from "./verbs";

const pages: Record<string, { icon: IconName; title: () => string; page: () => preact.JSX.Element; key: string }> = {
  overview: { icon: "overview", title: () => ta("overview"), page: Overview, key: "o" },
  events: { icon: "warn", title: () => ta("eventList"), page: Events, key: "e" },
  people: { icon: "shared", title: () => ta("people"), page: People, key: "p" },
  groups: { icon: "group", title: () => ta("groups"), page: Groups, key: "g" },
  databases: { icon: "database", title: () => ta("databases"), page: Databases, key: "d" },
  domains: { icon: "globe", title: () => ta("domains"), page: Domains, key: "n" },
  queue: { icon: "queue", title: () => ta("queue"), page: Queue, key: "q" },
  rules: { icon: "rule", title: () => ta("mailRules"), page: MailRules, key: "r" },
  retention: { icon: "clock", title: () => ta("retention"), page: Retention, key: "k" },
  sessions: { icon: "device", title: () => ta("sessions"), page: Sessions, key: "s" },
  cluster: { icon: "cluster", title: () => ta("cluster"), page: Cluster, key: "c" },
  statistics: { icon: "chart", title: () => ta("statistics"), page: Statistics, key: "t" },
  console: { icon: "terminal", title: () => ta("console"), page: Console, key: "x" },
  log: { icon: "log", title: () => ta("log"), page: Log, key: "l" },
};

export function Administration() {
  const name = where.value.page in pages ? where.value.page : "overview";
  const Page = pages[name]!.page;
  const help = useSignal(false);
  useEffect(() => {
    document.title = `${pages[name]!.title()} · ${ta("administration")}`;
  });
  useEffect(() => {
    let before = "";
    const onKey = (e: KeyboardEvent) => {
      const target = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || sheet.value || document.querySelector("dialog[open]") || /^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox") return;
      const found = before === "g" ? Object.entries(pages).find(([, p]) => p.key === e.key) : undefined;
      before = found ? "" : e.key;
      if (found) go(found[0]);
      else if (e.key === "/") document.querySelector<HTMLInputElement>("[data-find]")?.focus();
      else if (e.key === "?") help.value = true;
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  void preferences.value;
  if (!person.value.admin) {
    return (
      <main class="gate"><div class="gate-card"><h1><DominoFace a={6} b={6} hue={168} size={40} />{t("appName")}</h1><p role="alert">{ta("denied")}</p><p class="quiet">{ta("deniedHint")}</p><a class="button primary" href="/">{ta("toMail")}</a></div></main>
    );
  }
  return (
    <div class="frame admin">
      <header class="top">
        <div class="brand"><DominoFace a={6} b={6} hue={168} size={34} /><span>{ta("administration")}</span></div>
        <span class="grow" />
        {!online.value && <span class="banner" role="status"><Icon name="offline" />{ta("offline")}</span>}
        <a class="button" href="/"><Icon name="inbox" /><span class="only-wide-text">{ta("toMail")}</span></a>
        <button class="tool only-wide" aria-label={t("help")} title={t("help")} onClick={() => (help.value = true)}><Icon name="keyboard" /></button>
        <button class="tool" aria-label={`${t("account")}: ${person.value.name}`} title={person.value.name} onClick={(e) => openMenu(e.currentTarget, [
          { text: t("secondFactor"), icon: "settings", run: () => location.assign("/auth/") },
          { text: t("signOut"), icon: "out", run: () => void leave() },
        ])}><Domino of={person.value.address || person.value.name} size={34} /></button>
      </header>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <nav class={`side ${sideOpen.value ? "open" : ""}`} aria-label={ta("administration")}>
        <ul class="folders">{Object.entries(pages).map(([k, p]) => (
          <li key={k}><a class="folder" href={`#/${k}`} aria-current={k === name ? "page" : undefined} title={p.title()} onClick={() => (sideOpen.value = false)}><Icon name={p.icon} /><span class="name">{p.title()}</span></a></li>
        ))}</ul>
      </nav>
      <main class="stage"><Page key={name} /></main>
      {sheet.value?.kind === "ask" && <Ask s={sheet.value} />}
      {again.value && <Again {...again.value} />}
      {help.value && <Frame title={t("help")} onClose={() => (help.value = false)}><div class="keys">
        {Object.values(pages).map((p) => <div><span>{p.title()}</span><kbd>g {p.key}</kbd></div>)}
        <div><span>{ta("search")}</span><kbd>/</kbd></div><div><span>{t("help")}</span><kbd>?</kbd></div>
      </div></Frame>}
      <Menu />
      <Toasts />
    </div>
  );
}

/** Says why somebody could not sign in again. */
function whyNot(problem: SignInProblem | Failed): string {
  if ("why" in problem) return ta("passkeyNotUsed");
  switch (problem.error) {
    case "code": return ta("code");
    case "offline": return ta("offline");
    case "nobody": return t("signedOut");
    case "passkey": return ty("refused");
    case "other": return ta("passkeyOfOther");
  }
  return problem.detail || ta("wrong");
}

/**
 * Asks who somebody is before something is changed, where the sign-in was long ago: for the password, for a passkey, or at the provider of
 * the sign-in where they have no password here. The provider sends them back to this address.
 */
function Again({ has, done }: { has: Has; done: (signedIn: boolean) => void }) {
  const password = useSignal("");
  const code = useSignal("");
  const second = useSignal(false);
  const said = useSignal("");
  const busy = useSignal(false);
  const ways = useSignal<{ said: Awaited<ReturnType<typeof waysToSignIn>> } | null>(null);
  useEffect(() => void waysToSignIn().then((said) => (ways.value = { said })), []);
  if (!has.password && !ways.value) return null;
  const passkey = has.passkey && passkeyHost(ways.value?.said) !== undefined;
  const provider = has.password ? undefined : ways.value?.said?.openid;
  const end = (ok: boolean) => {
    if (again.value?.done === done) again.value = null; // else another change asks by now
    done(ok);
  };
  const take = async (proof: Promise<SignInProblem | Failed | undefined>) => {
    busy.value = true;
    const problem = await proof.catch((): SignInProblem => ({ error: "offline", detail: "" }));
    busy.value = false;
    if (!problem) return end(true);
    if ("error" in problem && problem.error.includes("code")) second.value = true;
    said.value = whyNot(problem);
  };
  return (
    <Frame title={ta("signInAgain")} small onClose={() => end(false)}>
      <form class="form" onSubmit={(e) => { e.preventDefault(); void take(confirmSignIn(password.value, code.value)); }}>
        {said.value && <p class="said" role="alert">{said.value}</p>}
        {has.password && <>
          <p>{ta("signInAgainText")}</p>
          <input class="visually-hidden" type="text" autocomplete="username" value={person.value.address} tabIndex={-1} aria-hidden="true" readOnly />
          <Text label={ta("password")} type="password" value={password} autocomplete="current-password" required autofocus name="password" />
          {second.value && <Text label={ta("code")} value={code} inputMode="numeric" autocomplete="one-time-code" />}
        </>}
        {!has.password && passkey && <p>{ta("signInAgainPasskeyText")}</p>}
        {passkey && <button type="button" class={`button ${has.password ? "" : "primary"}`} disabled={busy.value} onClick={() => void take(confirmWithPasskey())}><Icon name="key" />{ta("usePasskey")}</button>}
        {provider && <>
          <p>{ta("signInAgainAtText", provider.name)}</p>
          <button type="button" class={`button ${passkey ? "" : "primary"}`} onClick={() => location.assign(`${provider.path}?${new URLSearchParams({ again: "1", to: location.pathname + location.search + location.hash })}`)}>{ta("signInAgainAt", provider.name)}</button>
        </>}
        {!has.password && !passkey && !provider && <p role="alert">{ta(ways.value?.said ? "signInAgainNone" : "offline")}</p>}
        {has.password ? <Ends yes={t("signIn")} busy={busy.value} onCancel={() => end(false)} /> : <div class="ends"><button type="button" class="button" onClick={() => end(false)}>{ta("cancel")}</button></div>}
      </form>
    </Frame>
  );
}
