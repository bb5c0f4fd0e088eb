/** A headless Chromium from Debian, with one tab. */
import { chmodSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { debianTool } from "./debian-tools.ts";
import { tempDir } from "./fixture.ts";

const name = "chromium-headless-shell";

/** Whether the browser exists on this machine. `npm test` fetches it if Debian's packages are reachable. */
export const hasBrowser = debianTool(name) !== undefined;

export interface Browser extends AsyncDisposable {
  readonly view: Bun.WebView;
  /** URLs that the page has requested, without data and blob URLs. */
  readonly requests: readonly string[];
  /** Errors of the page: console errors and warnings, uncaught errors, violations of the security policy. */
  readonly errors: readonly string[];
  /** Loads a URL, also if only its fragment differs from the current one. Cookies and storage are kept. */
  open(url: URL | string): Promise<void>;
  /** Evaluates a JavaScript expression in the page. @returns its value */
  evaluate<T>(script: string): Promise<T>;
  /** Resolves once a JavaScript expression is true in the page. */
  until(script: string): Promise<void>;
  /** Sets theme and window size in pixels. A width below 700 means a phone with touch. */
  look(look: { readonly theme?: "light" | "dark"; readonly width?: number; readonly height?: number }): Promise<void>;
}

/** Time limit of every wait for the page, in milliseconds. Only a page that hangs reaches it. */
const LIMIT_MS = 20_000;

/** Starts the browser. @param names host names that the browser resolves to 127.0.0.1 */
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
        // Without this option, the headless browser sends no Accept-Language.
        "--accept-lang=en",
        `--host-resolver-rules=${names.map((each) => `MAP ${each} 127.0.0.1`).join(",")}`,
        // Chromium's fake camera shows a clock, and its fake microphone beeps. The second option grants access to
        // both.
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
  // Records errors that the browser logs, except failed HTTP requests, which are no errors of the page's code.
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
      // If two URLs differ only in the fragment, the browser would not load the second as a new page.
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
      // If the page reloads during the check, the check is repeated.
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
      await view.cdp("Emulation.setTouchEmulationEnabled", { enabled: mobile });
    },
    async [Symbol.asyncDispose]() {
      view.close();
      Bun.WebView.closeAll();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** A fontconfig rule: DejaVu Sans replaces fonts that are not installed. */
const fallback = `<match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>`;

/**
 * Writes a script that starts the browser. @returns the script's path. An unpacked browser needs the paths of its
 * libraries and fonts.
 */
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
  // libpulse has libraries in a subfolder named `pulseaudio`.
  const libraries = (tool.env.LD_LIBRARY_PATH ?? "").split(":").flatMap((each) => [each, join(each, "pulseaudio")]);
  writeFileSync(
    path,
    `#!/bin/sh\nexport LD_LIBRARY_PATH='${libraries.join(":")}' FONTCONFIG_FILE='${fonts}'\nexec '${join(dirname(dirname(tool.command)), "lib", "chromium", name)}' "$@"\n`,
  );
  chmodSync(path, 0o755);
  return path;
}
