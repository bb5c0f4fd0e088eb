/** The model's page in a browser, with servers that restart, and with proxies before them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { hasBrowser } from "../helpers/browser.ts";
import { writeModel } from "../helpers/model-text.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";
import { tempDir } from "../helpers/temp-dir.ts";
import { Visitor } from "../helpers/visitor.ts";
import { serverTests } from "../page/servers.ts";

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

  serverTests(() => ({ visitor, store, stage, kinds }));

  test("no request went to another server, and the console has no errors", () => {
    const { requests, errors } = visitor.browser;
    expect(requests.filter((url) => !visitor.origins.has(new URL(url).origin) && url !== "about:blank")).toEqual([]);
    expect(errors).toEqual([]);
  });
});
