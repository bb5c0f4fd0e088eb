/** The model's page in a browser, with servers that restart, and with proxies before them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { makeKey } from "../../src/http/access/key-file.ts";
import { hasBrowser } from "../helpers/browser.ts";
import { freePort } from "../helpers/free-port.ts";
import { type Hold, hold } from "../helpers/hold.ts";
import { writeModel } from "../helpers/model-text.ts";
import { pageProxy } from "../helpers/page-proxy.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";
import { tempDir } from "../helpers/temp-dir.ts";
import { Visitor } from "../helpers/visitor.ts";

let store: TestStore;
let stage: TestServer;
let kinds: TestServer;
let visitor: Visitor;

describe.skipIf(!hasBrowser)("in a browser (chromium-headless-shell of Debian)", () => {
  beforeAll(async () => {
    await using folder = await tempDir();
    const text = await Bun.file(new URL("../page/kinds.ts", import.meta.url)).text();
    store = await storeWith("stage", await writeModel(folder, text));
    [visitor, stage, kinds] = await Promise.all([Visitor.arrives(), store.serve("stage"), store.serve("kinds")]);
  });

  afterAll(async () => {
    await Promise.all([visitor, stage, kinds].map((each) => each[Symbol.asyncDispose]()));
    await store[Symbol.asyncDispose]();
  });

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

  test("outputs appear when they are complete", async () => {
    await using held = hold();
    const inputs = [{ said: "hello", before: held.url("first") }, { said: "I am the second" }];
    const { prediction_id: id } = await kinds.client.demos.create(inputs);
    await visitor.goTo(`${kinds.url}demo#id=${id}`);
    await visitor.until(`document.querySelector(".result .item")?.innerText.includes("I am the second")`);
    expect(await visitor.text(".status")).toStartWith("Running");
    held.release("first");
    await visitor.comesTo("Done");
    await visitor.until(`document.querySelector(".result .item").innerText.includes("hello")`);
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

  test("a run continues after its connection was lost", async () => {
    await using held = hold();
    await using proxy = pageProxy(stage.url);
    await visitor.open(proxy.url);
    await runUntil(held.url("later"));
    await proxy.leave();
    await visitor.says("The server does not answer.");
    proxy.comeBack();
    held.release("later");
    await visitor.comesTo("Done");
    await visitor.until(`!document.body.innerText.includes("does not answer")`);
    expect(await visitor.text(".logs pre")).toMatch(/^begin 1\.5\nsaid hello.*\n.* again\n/);
  });

  test("a run whose request got no answer is created once", async () => {
    await using proxy = pageProxy(stage.url, { lostAnswers: 2 });
    await visitor.open(proxy.url);
    await visitor.run();
    await visitor.comesTo("Done");
    expect(proxy.created).toHaveLength(3);
    expect(new Set(proxy.created).size).toBe(1);
  });

  /** Starts a server for the model `kinds`, whose `setup` waits until `held` releases it. */
  const settingUp = async (held: Hold, port: number) => {
    process.env.SCONCE_TEST_SETUP = held.url("setup");
    const starting = store.serve("kinds", { port });
    await held.arrived("setup");
    delete process.env.SCONCE_TEST_SETUP;
    return {
      ready: starting,
      [Symbol.asyncDispose]: async () => {
        held.release("setup");
        await (await starting).stop();
      },
    };
  };

  test("the page finds a restarted server, also while that runs its setup", async () => {
    const first = await store.serve("kinds", { port: freePort() });
    await visitor.open(first.url);
    await first.stop();
    await visitor.run();
    await visitor.says("The server does not answer.");
    await using held = hold();
    await using second = await settingUp(held, Number(first.url.port));
    await visitor.says("The model is being set up.");
    held.release("setup");
    await second.ready;
    await visitor.comesTo("Done");
    expect(await visitor.violations()).toEqual([]);
  });

  test("during setup, browsers get a waiting page that becomes the model's page, and programs get a problem", async () => {
    const port = freePort();
    const url = `http://127.0.0.1:${port}/`;
    await using held = hold();
    await using _ = await settingUp(held, port);
    const response = await fetch(url, { headers: { Accept: "text/html" } });
    expect([response.status, response.headers.get("retry-after"), response.url]).toEqual([503, "1", `${url}demo`]);
    for (const path of ["", "demo"]) {
      expect((await fetch(url + path)).headers.get("content-type")).toBe("application/problem+json");
    }
    await visitor.goTo(url);
    await visitor.says("The model is being set up.");
    expect(await visitor.violations()).toEqual([]);
    held.release("setup");
    await visitor.until(`document.querySelector("form") !== null`);
    expect(await visitor.browser.evaluate<string>("document.title")).toBe("kinds");
  });

  test("no request went to another server, and the console has no errors", () => {
    const { requests, errors } = visitor.browser;
    expect(requests.filter((url) => !visitor.origins.has(new URL(url).origin) && url !== "about:blank")).toEqual([]);
    expect(errors).toEqual([]);
  });
});
