/** Headless Chromium from Debian with one tab. */
import { chmodSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { debianTool } from "./debian-tools.ts";
import { tempDir } from "./temp-dir.ts";

const name = "chromium-headless-shell";

/** Whether the browser is installed; `npm test` fetches it if Debian's packages are reachable. */
export const hasBrowser = debianTool(name) !== undefined;

export interface Browser extends AsyncDisposable {
  readonly view: Bun.WebView;
  /** Requested URLs, without data and blob URLs. */
  readonly requests: readonly string[];
  /** Errors of the page: console, uncaught errors, violations of the security policy. */
  readonly errors: readonly string[];
  /** Opens another page without any state of the previous page. */
  open(url: URL | string): Promise<void>;
  /** @param script an expression that runs in the page */
  evaluate<T>(script: string): Promise<T>;
  /** Resolves once the expression is true in the page. */
  until(script: string): Promise<void>;
  /** Sets theme and screen size; a phone has touch and a narrow screen. */
  look(look: { readonly theme?: "light" | "dark"; readonly width?: number; readonly height?: number }): Promise<void>;
}

/** Time limit of all waits on this page; only a hang exceeds it. */
const LIMIT_MS = 20_000;

/** @param names host names that the browser resolves to 127.0.0.1 */
export async function openBrowser(names: readonly string[] = []): Promise<Browser> {
  const folder = await tempDir();
  const requests: string[] = [];
  const errors: string[] = [];
  const view = new Bun.WebView({
    width: 1280,
    height: 900,
    backend: {
      type: "chrome",
      url: false,
      path: await launcher(folder.path),
      argv: [
        "--no-sandbox",
        "--hide-scrollbars",
        "--disable-gpu",
        // The headless browser has no languages by default.
        "--accept-lang=en",
        `--host-resolver-rules=${names.map((each) => `MAP ${each} 127.0.0.1`).join(",")}`,
        // Chromium's fake camera shows a clock; its fake microphone beeps.
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
      ],
    },
    console: (type, ...values) => {
      if (type === "error" || type === "warn") errors.push(values.map((value) => Bun.inspect(value)).join(" "));
    },
  });
  await view.navigate("about:blank");
  view.addEventListener<{ request: { url: string } }>("Network.requestWillBeSent", ({ data: { request } }) => {
    if (!/^(?:data|blob):/.test(request.url)) requests.push(request.url);
  });
  // Failed HTTP responses are no errors of the page.
  view.addEventListener<{ entry: { source: string; text: string } }>("Log.entryAdded", ({ data: { entry } }) => {
    if (entry.source !== "network") errors.push(entry.text);
  });
  view.addEventListener<{ exceptionDetails: unknown }>("Runtime.exceptionThrown", ({ data }) => {
    errors.push(Bun.inspect(data.exceptionDetails));
  });
  for (const domain of ["Network", "Log", "Runtime"]) await view.cdp(`${domain}.enable`);
  await view.cdp("Browser.grantPermissions", { permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
  return {
    view,
    requests,
    errors,
    async open(url) {
      // Navigating to the same page with another fragment would not reload it.
      await view.navigate("about:blank");
      await view.navigate(String(url));
    },
    evaluate: (script) => view.evaluate(script),
    async until(script) {
      const look = () =>
        view.evaluate<void>(
          `new Promise((resolve, reject) => {
            const began = performance.now();
            const look = () => {
              if (${script}) resolve();
              else if (performance.now() - began > ${LIMIT_MS}) reject(new Error(${JSON.stringify(`never came true: ${script}; the page says `)} + document.body.innerText));
              else setTimeout(look, 25);
            };
            look();
          })`,
        );
      // If the page reloads meanwhile, the check repeats.
      await look().catch((error: unknown) => (String(error).includes("navigated") ? look() : Promise.reject(error)));
    },
    async look({ theme = "light", width = 1280, height = 900 }) {
      const mobile = width < 700;
      const features = [
        { name: "prefers-color-scheme", value: theme },
        { name: "prefers-reduced-motion", value: "reduce" },
      ];
      await view.cdp("Emulation.setEmulatedMedia", { features });
      await view.cdp("Emulation.setDeviceMetricsOverride", { width, height, mobile, deviceScaleFactor: 1 });
    },
    async [Symbol.asyncDispose]() {
      view.close();
      Bun.WebView.closeAll();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Fallback for a missing font family. */
const fallback = `<match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>`;

/** A script that starts the browser. An unpacked browser has its libraries and fonts outside the default paths. */
async function launcher(folder: string): Promise<string> {
  const tool = debianTool(name);
  if (tool === undefined) throw new Error("there is no browser");
  const root = tool.command.slice(0, -join("/usr/bin", name).length);
  const fonts = join(folder, "fonts.conf");
  writeFileSync(
    fonts,
    `<fontconfig><dir>/usr/share/fonts</dir><dir>${root}/usr/share/fonts</dir><cachedir>${folder}</cachedir>${fallback}</fontconfig>`,
  );
  const path = join(folder, "browser");
  // libpulse has private libraries in the subfolder `pulseaudio`.
  const libraries = (tool.env.LD_LIBRARY_PATH ?? "").split(":").flatMap((each) => [each, join(each, "pulseaudio")]);
  writeFileSync(
    path,
    `#!/bin/sh\nexport LD_LIBRARY_PATH='${libraries.join(":")}' FONTCONFIG_FILE='${fonts}'\nexec '${join(dirname(dirname(tool.command)), "lib", "chromium", name)}' "$@"\n`,
  );
  chmodSync(path, 0o755);
  return path;
}
