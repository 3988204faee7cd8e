import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { person, signIn } from "../state/session";
import { t } from "../text";
import { DominoFace } from "./icons";
import { lazy } from "./lazy";

const OtherWays = lazy(() => import("./ways").then((m) => m.OtherWays));

export function SignIn() {
  return <main class="gate"><Card /></main>;
}

/**
 * Asks again who somebody is whose session ended, above what they were at: it stays as it is. The sheet has the focus, not a
 * field: what one was typing goes into no password.
 */
export function SignInAgain() {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
    box.current?.focus();
  }, []);
  return <dialog class="gate-again" ref={box} tabIndex={-1} aria-label={t("signIn")} onCancel={(e) => e.preventDefault()}><Card again /></dialog>;
}

function Card({ again }: { again?: boolean }) {
  const user = useRef<HTMLInputElement>(null);
  const code = useRef<HTMLInputElement>(null);
  const keep = useRef<HTMLInputElement>(null);
  const said = useSignal(again ? t("signedOut") : "");
  const busy = useSignal(false);
  const second = useSignal(false);
  useEffect(() => {
    if (!again) user.current?.focus();
  }, []);
  useEffect(() => {
    if (second.value) code.current?.focus();
  }, [second.value]);

  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    busy.value = true;
    const problem = await signIn(String(form.get("user")), String(form.get("password")), String(form.get("code") ?? ""), form.get("keep") !== null);
    busy.value = false;
    if (!problem) return;
    if (problem.error === "offline") said.value = t("cannotReach");
    else if (problem.error.includes("second") || problem.error.includes("code")) {
      said.value = second.value ? problem.detail || t("wrongPassword") : t("codeNeeded");
      second.value = true;
    } else if (problem.error.includes("too many") || problem.error === "429") said.value = t("tooMany");
    else said.value = problem.detail || t("wrongPassword");
  };
  return (
      <form class="gate-card" onSubmit={(e) => void submit(e as unknown as SubmitEvent)}>
        <h1>
          <DominoFace a={6} b={6} hue={168} size={40} />
          {t("appName")}
        </h1>
        {said.value && <p class="said" role="alert">{said.value}</p>}
        <label class="field">
          <span>{t("userName")}</span>
          <input ref={user} name="user" defaultValue={again ? person.value.address || person.value.name : ""} autocomplete="username" autocapitalize="none" spellcheck={false} required />
        </label>
        <label class="field">
          <span>{t("password")}</span>
          <input name="password" type="password" autocomplete="current-password" required />
        </label>
        {second.value && (
          <label class="field">
            <span>{t("code")}</span>
            <input ref={code} name="code" inputmode="numeric" autocomplete="one-time-code" />
          </label>
        )}
        <label class="check">
          <input ref={keep} type="checkbox" name="keep" />
          {t("staySignedIn")}
        </label>
        <button class="button primary" disabled={busy.value}>{t("signIn")}</button>
        <OtherWays stays={() => keep.current?.checked ?? false} say={(what) => (said.value = what)} />
        {!again && <a class="other-way" href="/lite/">{t("liteMode")}</a>}
      </form>
  );
}
