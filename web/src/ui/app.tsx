import { useEffect } from "preact/hooks";
import { openAccount } from "../state/mail";
import { account, phase } from "../state/session";
import { t } from "../text";
import { SignIn } from "./signin";
import { Shell } from "./shell";
import { DominoFace } from "./icons";

export function App() {
  useEffect(() => {
    if (phase.value === "in") void openAccount();
  }, [phase.value, account.value]);
  switch (phase.value) {
    case "starting":
      return (
        <main class="gate" aria-busy="true">
          <span class="visually-hidden">{t("loading")}</span>
          <DominoFace a={6} b={6} hue={168} size={64} />
        </main>
      );
    case "signed-out":
      return <SignIn />;
    case "in":
      return <Shell />;
  }
}
