// The top of the client, on each of its pages: the way to the others, what is not as usual, and the person.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { storageDenied } from "../state/db";
import { busy, standing } from "../state/outbox";
import { unanswered } from "../state/invited";
import { narrow, openMenu, sheet } from "../state/screen";
import { client, clockOff, online, outdated, person, server, session } from "../state/session";
import { count, language, t } from "../text";
import { Domino, DominoFace, Icon, type IconName } from "./icons";
import { leave } from "./leave";

export type Page = "mail" | "calendar" | "contacts";

const pages: { page: Page; at: string; icon: IconName; needs: string }[] = [
  { page: "mail", at: "/mail/inbox", icon: "inbox", needs: "urn:ietf:params:jmap:mail" },
  { page: "calendar", at: "/calendar/", icon: "calendar", needs: "urn:ietf:params:jmap:calendars" },
  { page: "contacts", at: "/contacts/", icon: "contacts", needs: "urn:ietf:params:jmap:contacts" },
];

/** The way to the other pages; none where the server offers mail alone. On telephones it lies below the page. */
export function Switch({ page }: { page: Page }) {
  const there = pages.filter((p) => p.needs in (session.value?.capabilities ?? {}));
  if (there.length < 2) return null;
  const waits = unanswered.value.length;
  return (
    <nav class="switch" aria-label={t("pages")}>
      {there.map((p) => <a key={p.page} href={p.at} title={t(p.page)} {...(p.page === page ? { "aria-current": "page" as const } : {})}><Icon name={p.icon} /><span>{t(p.page)}</span>{p.page === "calendar" && waits > 0 && <b class="count">{count(waits)}</b>}</a>)}
    </nav>
  );
}

export function Top({ page, children }: { page: Page; children?: ComponentChildren }) {
  return (
    <header class="top">
      <div class="brand"><DominoFace a={6} b={6} hue={168} size={34} /><span>{t("appName")}</span></div>
      {!narrow.value && <Switch page={page} />}
      {children}
      <span class="grow" />
      <Banner page={page} />
      <button class="tool only-wide" aria-label={t("help")} title={t("help")} onClick={() => (sheet.value = { kind: "help" })}><Icon name="keyboard" /></button>
      <button class="tool only-wide" aria-label={t("settings")} title={t("settings")} onClick={() => (sheet.value = { kind: "settings" })}><Icon name="settings" /></button>
      <button class="tool" aria-label={`${t("account")}: ${person.value.name}`} title={person.value.name} onClick={(e) => openMenu(e.currentTarget, [
        { text: t("settings"), icon: "settings", run: () => (sheet.value = { kind: "settings" }) },
        ...(person.value.admin ? [{ text: t("administration"), icon: "overview", run: () => location.assign("/admin/") }] : []),
        { text: t("secondFactor"), icon: "settings", run: () => location.assign("/auth/") },
        { text: t("signOut"), icon: "out", run: () => void leave() },
      ])}><Domino of={person.value.address || person.value.name} name={person.value.name} size={34} /></button>
    </header>
  );
}

/** For how long a server may not answer before another is offered, in milliseconds. */
const patience = 8000;

/** The most important unusual condition, one at a time. */
function Banner({ page }: { page: Page }) {
  const long = useSignal(false);
  useEffect(() => {
    long.value = false;
    if (online.value) return undefined;
    const timer = setTimeout(() => (long.value = true), patience);
    return () => clearTimeout(timer);
  }, [online.value]);
  if (outdated.value) return <span class="banner" role="status">{t("newVersion")}<button class="button" onClick={() => location.reload()}>{t("reload")}</button></span>;
  const elsewhere = server.value.mates.filter((m) => m.url);
  // If each server has a name of its own, the person changes to another by hand: this page works with the one it came from.
  if (!online.value && long.value && elsewhere.length > 0) return <span class="banner" role="status"><Icon name="offline" />{t("mateAt", server.value.name)}{elsewhere.map((m) => <a class="button" href={m.url ?? ""}>{m.name}</a>)}</span>;
  // More than that nobody answers it matters that the page may not be closed.
  const { n, bad } = standing();
  if (!online.value && storageDenied.value) return <span class="banner" role="status"><Icon name="offline" />{n > 0 ? t("waitingHere", n) : t("offlineUnkept")}</span>;
  if (!online.value) return <span class="banner" role="status"><Icon name="offline" />{narrow.value ? t("offlineShort") : n > 0 ? t("waiting", n) : t("offline")}</span>;
  if (bad && page === "mail") return <span class="banner" role="alert"><a class="button" href={bad.type === "ContactCard" ? "/contacts/all" : "/calendar/tasks"}>{t("unsaved")}</a></span>;
  if (busy.value && n > 0) return <span class="banner" role="status">{t("waitingBusy", n)}</span>;
  if (storageDenied.value) return <span class="banner" role="status">{n > 0 ? t("waitingHere", n) : t("storageDenied")}</span>;
  if (clockOff.value !== 0) return <span class="banner" role="status">{t("clockOff", client.now().toLocaleTimeString(language.value, { hour: "2-digit", minute: "2-digit" }))}</span>;
  return null;
}
