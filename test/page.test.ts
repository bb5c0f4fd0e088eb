/** The page of the model, as somebody uses it in a browser; and as programs see it. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import axe from "axe-core";
import { type Browser, hasBrowser, openBrowser } from "./helpers/browser.ts";
import { hold } from "./helpers/hold.ts";
import { storeWith, type TestServer, type TestStore } from "./helpers/server.ts";

setDefaultTimeout(120_000);

const example = (name: string) => fileURLToPath(new URL(`../examples/${name}`, import.meta.url));
const accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

let store: TestStore;
let stage: TestServer;

beforeAll(async () => {
  store = await storeWith("stage", example("digits"), example("upscale"));
  stage = await store.serve("stage");
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

describe("GET /", () => {
  test("leads a browser to the page, below whatever path a proxy puts it", async () => {
    const response = await stage.client.fetch("/", { headers: { Accept: accepted }, redirect: "manual" });
    expect([response.status, response.headers.get("vary")]).toEqual([302, "Accept"]);
    expect(new URL(response.headers.get("location") ?? "", "http://proxy/prefix/").pathname).toBe("/prefix/demo");
  });

  test.each(["*/*", "application/json", "application/json, text/html;q=0.5"])(
    "is JSON for who accepts %s",
    async (accept) => {
      const response = await stage.client.fetch("/", { headers: { Accept: accept } });
      expect(response.headers.get("vary")).toBe("Accept");
      expect((await response.json()) as object).toMatchObject({ name: "stage" });
    },
  );
});

describe("GET /demo", () => {
  test("allows no code or style but its own", async () => {
    const response = await stage.client.fetch("/demo");
    expect(response.headers.get("content-security-policy")).toStartWith(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ",
    );
    const html = await response.text();
    expect(html).not.toMatch(/<style|\sstyle=|<script(?! type="module" src=)|\son[a-z]+=/);
  });

  test("has less than 60 kB in all, compressed, under names that browsers may keep", async () => {
    const html = await (await stage.client.fetch("/demo")).text();
    let bytes = gzipSync(html).length;
    const links = [...html.matchAll(/(?:src|href)="(demo\/assets\/[^"]+)"/g)].map(([, link]) => `/${link}`);
    expect(links).toHaveLength(2);
    for (const link of links) {
      const response = await stage.client.fetch(link, { headers: { "Accept-Encoding": "gzip" } });
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("cache-control")).toContain("immutable");
      bytes += gzipSync(await response.bytes()).length;
    }
    expect(bytes).toBeLessThan(60_000);
  });
});

describe.skipIf(!hasBrowser)("in a browser (chromium-headless-shell of Debian)", () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await openBrowser();
  });

  afterAll(async () => {
    await browser[Symbol.asyncDispose]();
  });

  const run = async () => {
    await browser.evaluate(`document.querySelector('button[type="submit"]').click()`);
  };
  const origins = new Set<string>();
  const open = async (server: TestServer) => {
    origins.add(server.url.origin);
    await browser.look({});
    await browser.open(server.url);
    await browser.until(`document.querySelector('button[type="submit"]') !== null`);
  };
  const says = (text: string) => browser.until(`document.body.innerText.includes(${JSON.stringify(text)})`);
  /** Writes into the field of a JSON pointer, as fingers do. */
  const write = async (pointer: string, text: string) => {
    await browser.evaluate(`document.getElementById("field${pointer}").select()`);
    await browser.view.type(text);
  };
  const add = (name: string) =>
    browser.evaluate(
      `[...document.querySelectorAll(".chip")].find((chip) => chip.textContent === "+ ${name}").click()`,
    );
  const violations = () =>
    browser.evaluate<string[]>(
      `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
        violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => id + ": " + html + " " + any.map(({ message }) => message))))`,
    );
  const fitsWidth = () => browser.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth");
  /** Without a look at the page's security policy, as from the browser's own tools. */
  const loadAxe = () => browser.view.cdp("Runtime.evaluate", { expression: axe.source });
  /** Pictures for the README, where they are asked for: `SCONCE_SCREENSHOTS=1`. */
  const screenshot = async (name: string) => {
    if (!process.env.SCONCE_SCREENSHOTS) return;
    const picture = await browser.view.screenshot({ format: "webp", quality: 88 });
    await Bun.write(fileURLToPath(new URL(`../docs/${name}.webp`, import.meta.url)), picture);
  };

  test("a digit is read from the example, and its heat map lies over the picture; nobody is shut out", async () => {
    await using digits = await store.serve("digits");
    await open(digits);
    await loadAxe();
    expect(await violations()).toEqual([]);
    await run();
    await browser.until(`document.querySelector(".compare") !== null`);
    expect(await browser.evaluate<string>(`document.querySelector(".most th").textContent`)).toBe("3");
    expect(await browser.evaluate<string>(`document.querySelector(".logs pre").textContent`)).toContain("a 3, score");
    await browser.until(`[...document.images].every(({ complete, naturalWidth }) => complete && naturalWidth > 0)`);
    expect(await violations()).toEqual([]);
    await browser.look({ height: 960 });
    await screenshot("page-digits");
    await browser.look({ theme: "dark", width: 360, height: 740 });
    expect(await violations()).toEqual([]);
    expect(await fitsWidth()).toBe(true);
    // The link opens the same result in another tab.
    const link = await browser.evaluate<string>("location.href");
    expect(link).toContain("/demo#id=");
    await browser.evaluate("localStorage.clear()");
    await browser.open(link);
    await browser.until(`document.querySelector(".most th")?.textContent === "3"`);
  });

  test("a photograph that is dropped is enlarged, and compared with what it was", async () => {
    await using upscale = await store.serve("upscale");
    await open(upscale);
    const photograph = await Bun.file(`${example("upscale")}/samples/coffee.jpg`).bytes();
    await browser.evaluate(`(() => {
      const data = new DataTransfer();
      const bytes = Uint8Array.from(atob("${photograph.toBase64()}"), (letter) => letter.charCodeAt(0));
      data.items.add(new File([bytes], "coffee.jpg", { type: "image/jpeg" }));
      document.querySelector(".file").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    })()`);
    await browser.until(`document.querySelector(".file img").src.startsWith("data:image/jpeg")`);
    expect(await browser.evaluate<string>(`document.querySelector(".snippet pre").textContent`)).toContain(
      "base64 < image.jpg",
    );
    await run();
    await browser.until(
      `[...document.querySelectorAll(".compare img")].filter(({ naturalWidth }) => naturalWidth > 0).length === 2`,
    );
    const widths = await browser.evaluate<number[]>(
      `[...document.querySelectorAll(".compare img")].map((each) => each.naturalWidth)`,
    );
    expect(widths[0]).toBe(2 * (widths[1] ?? 0));
    await screenshot("page-upscale");
  });

  test("a fault is shown at its field, which is given the focus", async () => {
    await open(stage);
    await write("/0/x", "many");
    await run();
    await browser.until(`document.activeElement.getAttribute("aria-describedby") === "field/0/x-faults"`);
    expect(await browser.evaluate<string>(`document.getElementById("field/0/x-faults").textContent`)).toContain(
      "expected number",
    );
    await loadAxe();
    expect(await violations()).toEqual([]);
    await write("/0/x", "2.5");
    await run();
    await says("Done");
    expect(await browser.evaluate<string>(`document.querySelector(".stat").textContent`)).toBe("3");
  });

  test("logs are seen while it runs, and it can be canceled", async () => {
    await using held = hold();
    await open(stage);
    await write("/0/say", "hello to the page");
    await add("Before");
    await browser.until(`document.activeElement.id === "field/0/before"`);
    await browser.view.type(held.url("never"));
    await run();
    await held.arrived("never");
    await says("said hello to the page");
    expect(await browser.evaluate<string>(`document.querySelector(".status").textContent`)).toStartWith("Running");
    await browser.evaluate(
      `[...document.querySelectorAll("button")].find(({ textContent }) => textContent === "Cancel").click()`,
    );
    await says("Canceled");
  });

  test("an input that fails is named, beside one that does not", async () => {
    await open(stage);
    await browser.evaluate(
      `[...document.querySelectorAll("button")].find(({ textContent }) => textContent === "Duplicate").click()`,
    );
    await browser.until(`document.getElementById("field/1/x") !== null`);
    await browser.evaluate(`document.querySelectorAll(".chips")[1].querySelector(":nth-child(2)").click()`);
    await browser.until(`document.activeElement.id === "field/1/fail"`);
    await browser.evaluate(`(() => {
      const choice = document.getElementById("field/1/fail");
      choice.value = [...choice.options].find(({ text }) => text === "item").value;
      choice.dispatchEvent(new Event("change", { bubbles: true }));
    })()`);
    await run();
    await says("Input 2: preprocess failed: no such x");
    expect(await browser.evaluate<string>(`document.getElementById("field/1-faults").textContent`)).toContain(
      "no such x",
    );
  });

  test("a server that goes away is said, and is found again when it is back", async () => {
    const first = await store.serve("stage");
    const port = Number(first.url.port);
    await open(first);
    await first.stop();
    await run();
    await says("The server does not answer");
    await using _ = await store.serve("stage", { port });
    await says("Done");
    expect(await browser.evaluate<boolean>(`document.body.innerText.includes("does not answer")`)).toBe(false);
  });

  test("nothing was asked of any other server, and no error was left in the console", () => {
    expect(browser.requests.filter((url) => !origins.has(new URL(url).origin) && url !== "about:blank")).toEqual([]);
    expect(browser.errors).toEqual([]);
  });
});
