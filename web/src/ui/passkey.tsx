// The button on the page for signing in. It comes after the page.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { passkeyHost, signInWithPasskey } from "../state/passkeys";
import { t } from "../text";
import { ty } from "../text/passkeys";
import { Icon } from "./icons";

export function PasskeyButton({ stays, say }: { stays: () => boolean; say: (what: string) => void }) {
  const here = useSignal(false);
  const busy = useSignal(false);
  useEffect(() => void passkeyHost().then((host) => (here.value = !!host)), []);
  const enter = async () => {
    busy.value = true;
    const problem = await signInWithPasskey(stays());
    busy.value = false;
    if (!problem) return;
    if ("why" in problem) say(ty("notUsed"));
    else say(problem.error === "offline" ? t("cannotReach") : problem.error === "passkey" ? ty("refused") : problem.detail);
  };
  return here.value ? <button type="button" class="button" disabled={busy.value} onClick={() => void enter()}><Icon name="key" />{ty("signIn")}</button> : null;
}
