import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build as bundle, defineConfig, type Plugin } from "vite";

// What the built files were made of; a test compares it, so that none are out of date.
function sources(): string {
  const hash = createHash("sha256");
  const names = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "tsconfig.sw.json", "vite.config.ts"];
  for (const dir of ["public", "src"]) for (const f of readdirSync(dir, { recursive: true, withFileTypes: true })) if (f.isFile()) names.push(`${f.parentPath}/${f.name}`);
  for (const f of names.sort()) hash.update(`${f}\0`).update(readFileSync(f)).update("\0");
  return hash.digest("hex");
}

// What needs the server anyway is not kept for when it cannot be reached.
const online = /^(?:admin|setup|domains)-/u;

// After the client itself: the service worker, which knows the names of its files.
function finish(): Plugin {
  return {
    name: "finish",
    apply: "build",
    async closeBundle() {
      const files = readdirSync("dist/assets").sort();
      const hash = createHash("sha256");
      for (const f of ["index.html", ...files.map((f) => `assets/${f}`)]) hash.update(readFileSync(`dist/${f}`));
      await bundle({
        configFile: false, logLevel: "warn", publicDir: false,
        define: { BUILD: JSON.stringify(hash.digest("hex").slice(0, 12)), FILES: JSON.stringify(files.filter((f) => !online.test(f)).map((f) => `/assets/${f}`).concat("/icon.svg", "/manifest.webmanifest")) },
        build: { outDir: "dist", emptyOutDir: false, lib: { entry: "src/sw.ts", formats: ["es"], fileName: () => "sw.js" } },
      });
      writeFileSync("dist/SOURCES", `${sources()}\n`);
    },
  };
}

// Every page needs these: small files of them would take more bytes than one.
const oneFile = { name: "preact", test: /node_modules[\\/]@?preact/u };

export default defineConfig({
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, cssCodeSplit: false, sourcemap: false, reportCompressedSize: true, rolldownOptions: { output: { codeSplitting: { groups: [oneFile] } } } },
  json: { namedExports: false }, // a name for each text would cost more than the text
  plugins: [finish()],
  server: { proxy: { "/jmap": "http://127.0.0.1:2080", "/auth": "http://127.0.0.1:2080", "/.well-known": "http://127.0.0.1:2080", "/mail-frame": "http://127.0.0.1:2080" } },
});
