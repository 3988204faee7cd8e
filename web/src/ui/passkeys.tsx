// The passkeys of a person, in the settings.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { addPasskey, passkeyHost, readPasskeys, removePasskey, waysToSignIn, type Failed, type Passkey } from "../state/passkeys";
import { say } from "../state/screen";
import { attempt, type SignInProblem } from "../state/session";
import { fullDate, t } from "../text";
import { ty } from "../text/passkeys";

/** The password again, before a passkey is added or removed; the code where the person has a second factor. */
function Confirm({ of, name, act, close }: { of: Passkey | null; name: string; act: (name: string, password: string, code: string) => Promise<string | undefined | "code">; close: () => void }) {
  const said = useSignal("");
  const coded = useSignal(false);
  const busy = useSignal(false);
  const submit = async (form: FormData) => {
    busy.value = true;
    const problem = await act(String(form.get("name") ?? ""), String(form.get("password")), String(form.get("code") ?? ""));
    busy.value = false;
    if (problem === undefined) return close();
    said.value = problem === "code" ? t("codeNeeded") : problem;
    coded.value ||= problem === "code";
    return undefined;
  };
  return (
    <form onSubmit={(e) => { e.preventDefault(); void submit(new FormData(e.currentTarget)); }}>
      {of && <p>{ty("removeAsk", of.name)}</p>}
      {said.value && <p class="said" role="alert">{said.value}</p>}
      {!of && <label class="field"><span>{ty("name")}</span><input name="name" defaultValue={name} maxLength={50} required /></label>}
      <label class="field"><span>{t("password")}</span><input name="password" type="password" autocomplete="current-password" required /></label>
      {coded.value && <label class="field"><span>{t("code")}</span><input name="code" inputmode="numeric" autocomplete="one-time-code" /></label>}
      <div class="buttons">
        <button class={`button ${of ? "danger" : "primary"}`} disabled={busy.value}>{of ? ty("remove") : ty("addNow")}</button>
        <button type="button" class="button" onClick={close}>{t("cancel")}</button>
      </div>
    </form>
  );
}

/** name is the one that a new passkey is offered: this browser's. */
export function Passkeys({ name }: { name: string }) {
  const host = useSignal("");
  const list = useSignal<Passkey[]>([]);
  const open = useSignal<"add" | Passkey | null>(null);
  const read = () => void attempt(async () => (list.value = await readPasskeys()));
  useEffect(() => {
    void waysToSignIn().then((ways) => {
      host.value = passkeyHost(ways) ?? "";
      if (host.value) read();
    });
  }, []);
  if (!host.value) return null;

  const reason = (problem: SignInProblem | Failed): string => {
    if ("why" in problem) return problem.why === "have" ? ty("have") : problem.why === "elsewhere" ? ty("elsewhere", host.value) : ty("notMade");
    if (problem.error === "code") return "code";
    if (problem.error === "credentials") return t("wrongPassword");
    return problem.error === "offline" ? t("cannotReach") : problem.detail;
  };
  const act = (of: Passkey | null) => async (named: string, password: string, code: string) => {
    const problem = await (of ? removePasskey(of.id, password, code) : addPasskey(named, password, code));
    if (problem) return reason(problem);
    say(of ? ty("removed", of.name) : ty("added", named));
    read();
    return undefined;
  };
  const close = () => (open.value = null);
  return (
    <section class="passkeys">
      <h3>{ty("title")}</h3>
      <p>{ty("hint", host.value)}</p>
      {list.value.length === 0 && <p>{ty("none")}</p>}
      <ul class="devices">
        {list.value.map((k) => (
          <li key={k.id} class="device"><span class="name">{k.name}</span><span class="quiet">{ty("created", fullDate(k.created))} · {k.used ? ty("used", fullDate(k.used)) : ty("unused")}</span>
            <button class="button" aria-label={ty("removeOf", k.name)} onClick={() => (open.value = k)}>{ty("remove")}</button></li>
        ))}
      </ul>
      {open.value ? <Confirm key={open.value === "add" ? "" : open.value.id} of={open.value === "add" ? null : open.value} name={name} act={act(open.value === "add" ? null : open.value)} close={close} /> : <button class="button" onClick={() => (open.value = "add")}>{ty("add")}</button>}
    </section>
  );
}
