/** The model's page in a browser, during long runs, with API keys, and with proxies before the server. */
import { describe, expect, test } from "bun:test";
import { makeKey } from "../../src/cli/commands/key.ts";
import { hasBrowser } from "../helpers/browser.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { pageProxy } from "../helpers/page-proxy.ts";
import { storeWith } from "../helpers/server.ts";
import { Visitor } from "../helpers/visitor.ts";

describe.skipIf(!hasBrowser)("in a browser (chromium-headless-shell of Debian)", () => {
  const store = fixture(() => storeWith("stage"));
  const stage = fixture(() => store.serve("stage"));
  const visitor = fixture(() => Visitor.arrives());

  /** Starts a run whose demo waits for the URL. Resolves once the page shows the first logs. */
  const runUntil = async (url: string) => {
    await visitor.write("/0/say", "hello to the page");
    await visitor.reveal("/0/before");
    await visitor.browser.view.type(url);
    await visitor.run();
    await visitor.says("said hello to the page");
  };

  test("logs appear during the run as events bring them, and the run can be canceled", async () => {
    await using held = hold();
    await using proxy = pageProxy(stage.url);
    await visitor.open(proxy.url);
    await runUntil(held.url("never"));
    expect(await visitor.text(".status")).toStartWith("Running");
    expect(await visitor.violations()).toEqual([]);
    await visitor.click("Cancel");
    await visitor.comesTo("Canceled");
    expect(proxy.paths.filter((path) => /^\/demo(?:\/[^/]+)?$/.test(path))).toEqual(["/demo", "/demo"]);
  });

  test("a server with API keys: the page and /docs ask for a key, name one that does not permit a request, and keep it in the tab", async () => {
    await using folder = await tempDir();
    const reader = makeKey({ name: "reader", only: ["read"] });
    const all = makeKey({ name: "all" });
    await Bun.write(folder.join("keys.toml"), [reader, all].map(({ entry }) => entry).join("\n"));
    await using server = await store.serve("stage", { apiKeys: folder.join("keys.toml") });
    const answer = async (text: string) => {
      await visitor.until("document.querySelector('dialog[open] input') === document.activeElement");
      await visitor.browser.view.type(text);
      await visitor.browser.view.press("Enter");
    };
    await visitor.goTo(new URL("/demo", server.url));
    await visitor.until("document.querySelector('dialog[open]') !== null");
    expect(await visitor.text("title")).toBe("sconce");
    expect(await visitor.violations()).toEqual([]);
    await answer("sconce_wrong");
    await visitor.says("The API key is unknown");
    await answer(reader.secret);
    await visitor.until(`document.querySelector('button[type="submit"]') !== null`);
    await visitor.run();
    await visitor.says("The API key reader does not permit predictions");
    await answer(all.secret);
    await visitor.comesTo("Done");
    expect(await visitor.browser.evaluate<number>("localStorage.getItem('sconce-api-key') === null ? 0 : 1")).toBe(0);
    // The code for programs has the header of the key, but not the key.
    for (const [language, header] of [
      ["curl", '-H "Authorization: Bearer $API_KEY"'],
      ["TypeScript", "Authorization: `Bearer ${" + "process.env.API_KEY}`"],
      ["Python", '"Authorization": "Bearer " + os.environ["API_KEY"]'],
    ] as const) {
      await visitor.click(language);
      await visitor.until(`document.querySelector(".snippet pre").textContent.includes(${JSON.stringify(header)})`);
    }
    expect(await visitor.text("body")).not.toContain(all.secret);
    await visitor.goTo(new URL("/docs", server.url));
    await visitor.says("/predictions");
  });

  test("a lost connection ends the run, and the page says so", async () => {
    await using held = hold();
    await using proxy = pageProxy(stage.url);
    await visitor.open(proxy.url);
    await runUntil(held.url("never"));
    await proxy.leave();
    await visitor.says("The connection to the server ended.");
    await visitor.run();
    await visitor.says("The server does not answer.");
  });

  test("no request went to another server, and the console has no errors", () => {
    const { requests, errors } = visitor.browser;
    expect(requests.filter((url) => !visitor.origins.has(new URL(url).origin) && url !== "about:blank")).toEqual([]);
    expect(errors).toEqual([]);
  });
});
