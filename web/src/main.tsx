import "./look/look.css";
import { render } from "preact";
import { applyPreferences } from "./state/prefs";
import { flush } from "./state/outbox";
import { sync } from "./state/mail";
import { online, start } from "./state/session";
import { App } from "./ui/app";

applyPreferences();
render(<App />, document.getElementById("app")!);
void start();

addEventListener("online", () => void sync().then(flush));
addEventListener("offline", () => (online.value = false));
document.addEventListener("visibilitychange", () => {
  // A tab that slept may have missed pushes, and its session may have ended.
  if (document.visibilityState === "visible") void sync().then(flush);
});

if ("serviceWorker" in navigator && import.meta.env.PROD) void navigator.serviceWorker.register("/sw.js").catch(() => undefined);
