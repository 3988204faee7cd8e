import { useEffect } from "preact/hooks";
import { firstList } from "../state/list";
import { openAccount } from "../state/sync";
import { account, phase } from "../state/session";
import { speaks, t } from "../text";
import { DominoFace } from "./icons";
import { arrive, named, namedAccount } from "./history";
import { lazy } from "./lazy";
import { SignIn, SignInAgain } from "./signin";
import { Shell } from "./shell";
import { findUnfinished } from "./writing";

const Administration = lazy(() => import("../admin/admin").then((m) => m.Administration), Lost);
const CalendarPage = lazy(() => import("./calendar/page").then((m) => m.CalendarPage), Lost);
const ContactsPage = lazy(() => import("./contacts/page").then((m) => m.ContactsPage), Lost);
const Setup = lazy(() => import("../setup/setup").then((m) => m.Setup), Lost);

const pages = ["admin", "setup", "calendar", "contacts"] as const;

/** Which of its pages the client is: the server gives the same files for each. */
export const page: "mail" | (typeof pages)[number] = pages.find((p) => location.pathname.split("/")[1] === p) ?? "mail";

const shells = { admin: Administration, calendar: CalendarPage, contacts: ContactsPage, mail: Shell };

if (page === "mail") account.value = namedAccount();

export function App() {
  useEffect(() => {
    if (page === "mail" && phase.value === "in") void openAccount(named).then((isOpen) => (isOpen ? arrive(findUnfinished()) : undefined));
  }, [phase.value, account.value]);
  useEffect(() => {
    if (phase.value !== "in" || page === "setup" || page === "admin") return undefined;
    let stop: () => void = () => undefined;
    let there = true;
    void (page === "mail" ? firstList : Promise.resolve()).then(() => import("./alarms")).then((m) => { if (there) stop = m.startAlarms(); }, () => undefined);
    return () => { there = false; stop(); };
  }, [phase.value]);
  if (!speaks.value) return <Gate />;
  if (page === "setup") return <Setup />;
  const Page = shells[page];
  switch (phase.value) {
    case "starting":
      return <Gate />;
    case "signed-out":
      return <SignIn />;
    case "in":
    case "expired":
      return (
        <>
          <Page />
          {phase.value === "expired" && <SignInAgain />}
        </>
      );
  }
}

/** The page until it is known who is signed in. */
function Gate() {
  return (
    <main class="gate" aria-busy="true">
      <span class="visually-hidden">{t("loading")}</span>
      <DominoFace a={6} b={6} hue={168} size={64} />
    </main>
  );
}

/** The page if its scripts were lost on the way, as when the network changes: loaded again they may come. */
function Lost() {
  return (
    <main class="gate">
      <div class="gate-card">
        <p role="alert">{t("pageLost")}</p>
        <button class="button primary" onClick={() => location.reload()}>{t("reload")}</button>
      </div>
    </main>
  );
}
