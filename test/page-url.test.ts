/** What browsers and programs get at the URL of the model's page. */
import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { fixture } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

const store = fixture(() => storeWith("stage"));
const stage = fixture(() => store.serve("stage"));

describe("GET /", () => {
  test("redirects a browser to the page, also below the path of a proxy", async () => {
    const response = await stage.client.fetch("/", { headers: { Accept: accepted }, redirect: "manual" });
    expect([response.status, response.headers.get("vary")]).toEqual([302, "Accept"]);
    expect(new URL(response.headers.get("location") ?? "", "http://proxy/prefix/").pathname).toBe("/prefix/demo");
  });

  test.each(["*/*", "application/json", "application/json, text/html;q=0.5"])(
    "returns JSON to a client that accepts %s",
    async (accept) => {
      const response = await stage.client.fetch("/", { headers: { Accept: accept } });
      expect(response.headers.get("vary")).toBe("Accept");
      expect((await response.json()) as object).toMatchObject({ name: "stage" });
    },
  );
});

describe("GET /demo", () => {
  test("allows only its own code and styles", async () => {
    const response = await stage.client.fetch("/demo");
    expect(response.headers.get("content-security-policy")).toStartWith(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ",
    );
    const html = await response.text();
    expect(html).not.toMatch(/<style|\sstyle=|<script(?! type="module" src=)|\son[a-z]+=/);
  });

  test("has less than 60 kB compressed, and files that browsers keep", async () => {
    const html = await stage.client.text("/demo");
    let bytes = gzipSync(html).length;
    const links = [...html.matchAll(/(?:src|href)="(demo\/assets\/[^"]+)"/g)].map(([, link]) => `/${link}`);
    expect(links).toHaveLength(2);
    for (const link of links) {
      const response = await stage.client.fetch(link, { headers: { "Accept-Encoding": "gzip" } });
      expect(response.headers.get("content-encoding")).toBe("gzip");
      expect(response.headers.get("etag")).toMatch(/^(?:W\/)?"\w+"$/);
      bytes += gzipSync(await response.bytes()).length;
    }
    expect(bytes).toBeLessThan(60_000);
  });
});
