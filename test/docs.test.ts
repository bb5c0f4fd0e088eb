/** The interactive documentation at /docs, and the OpenAPI document that it shows. */
import { beforeAll, describe, expect, test } from "bun:test";
import { targetOf } from "../src/base/json.ts";
import { shortened } from "../src/http/openapi/short-example.ts";
import { dataUri } from "./helpers/data-uri.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith, type TestServer } from "./helpers/server.ts";

type Json = Readonly<Record<string, unknown>>;

let document: Json;

const store = fixture(() => storeWith("lab", "texts", "picture"));
const server = fixture(() => store.serve("lab"));
beforeAll(async () => {
  document = await documentOf(server);
});

async function documentOf({ client }: TestServer): Promise<Json> {
  return (await client.json("/openapi.json")) as Json;
}

describe("/docs", () => {
  test("loads only files of the server", async () => {
    const response = await server.client.fetch("/docs");
    expect(response.headers.get("content-type")).toStartWith("text/html");
    const html = await response.text();
    expect(html).not.toMatch(/(?:https?:)?\/\/(?!www\.w3\.org)[a-z]/);
    const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link ?? "");
    expect(links.length).toBeGreaterThanOrEqual(2);
    for (const link of links) {
      const asset = await fetch(new URL(link, new URL("/docs", server.url)));
      expect({ link, status: asset.status }).toEqual({ link, status: 200 });
      expect(asset.headers.get("content-type")).toMatch(link.endsWith(".css") ? /^text\/css/ : /^text\/javascript/);
      expect((await asset.bytes()).length).toBeGreaterThan(10_000);
    }
  });

  test("has scripts and styles that browsers keep, and fetch again only if they have changed", async () => {
    const html = await server.client.text("/docs");
    const [, folder = ""] = /href="([^"]+)\/swagger-ui\.css"/.exec(html) ?? [];
    const path = `/${folder}/swagger-ui.css`;
    const { headers } = await server.client.fetch(path);
    expect(headers.get("cache-control")).toBe("no-cache");
    const again = await server.client.fetch(path, { headers: { "If-None-Match": headers.get("etag") ?? "" } });
    expect([again.status, (await again.bytes()).length]).toEqual([304, 0]);
    expect(await server.client.status(`/${folder}/other.css`)).toBe(404);
  });

  test.each(["/docs/", "/docs/?x=1"])("is the target of %s, below any path of a proxy", async (path) => {
    const response = await server.client.fetch(path, { redirect: "manual" });
    expect(response.status).toBe(308);
    expect(new URL(response.headers.get("location") ?? "", `http://proxy/prefix${path}`).pathname).toBe("/prefix/docs");
    expect((await server.client.fetch(path)).headers.get("content-type")).toStartWith("text/html");
  });

  test("has an icon", async () => {
    const icon = await server.client.fetch("/favicon.ico");
    expect([icon.status, icon.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
  });

  test("runs no inline or foreign script", async () => {
    const { headers } = await server.client.fetch("/docs");
    expect(headers.get("content-security-policy")).toMatch(/^default-src 'none'; script-src 'self' 'sha256-[^']+'; /);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("reads the server's document, below any path of a proxy", async () => {
    const html = await server.client.text("/docs");
    expect(html).toContain("url: 'openapi.json'");
  });
});

describe("/openapi.json", () => {
  test("is OpenAPI 3.1 with the model's name, tag and description", () => {
    expect(document).toMatchObject({
      openapi: expect.stringMatching(/^3\.1\.\d+$/),
      info: {
        title: "lab",
        version: expect.stringMatching(/^\d+\.\d+\.\d+\+[0-9a-f]{12}$/),
        description: "Doubles a number and adds one.",
      },
    });
  });

  test("names its schemas, so that generated clients have readable types", () => {
    const names = Object.keys(targetOf("/components/schemas", document) as Json);
    for (const name of ["Input", "Output", "Prediction", "Problem"]) expect(names).toContain(name);
  });

  test("describes the model's inputs and outputs", async () => {
    const model = (await server.client.json("/")) as Json;
    expect(targetOf("/components/schemas/Input", document)).toEqual(model.input_schema);
    expect(targetOf("/components/schemas/Output", document)).toEqual(model.output_schema);
  });

  test("lists the problems of a prediction", () => {
    const { responses } = targetOf("/paths/~1predictions/post", document) as { responses: Json };
    expect(Object.keys(responses)).toEqual(["200", "400", "403", "408", "413", "415", "422", "429", "500", "503"]);
    for (const status of [400, 413, 415, 422, 429, 500, 503]) {
      expect(targetOf(`/${status}/content/application~1problem+json/schema/$ref`, responses)).toBe(
        "#/components/schemas/Problem",
      );
    }
  });

  test("contains the model's example, which the server accepts", async () => {
    const body = targetOf("/paths/~1predictions/post/requestBody", document) as Json;
    expect(body.required).toBe(true);
    const example = targetOf("/content/application~1json/example", body);
    expect(example).toEqual([{ x: 1.5 }]);
    expect((await server.client.predict(example as unknown[])).outputs?.[0]?.y).toBe(4);
  });

  test("contains small files in place of large ones, so that an editor shows the whole example", async () => {
    const bytes = await Bun.file(new URL("../examples/digits/samples/3.png", import.meta.url)).bytes();
    const short = await shortened({ images: [dataUri(bytes)], text: "kept" });
    expect(short).toEqual({ images: [expect.stringMatching(/^data:image\/webp;base64,/)], text: "kept" });
    expect(JSON.stringify(short).length).toBeLessThan(1100);
  });

  test("contains the files of the example as data URIs, and as bytes for forms", async () => {
    await using pictures = await store.serve("picture");
    const ofPictures = await documentOf(pictures);
    const content = targetOf("/paths/~1predictions/post/requestBody/content", ofPictures);
    expect(Object.keys(content as Json)).toEqual(["application/json", "multipart/form-data"]);
    expect(targetOf("/components/schemas/InputForm", ofPictures)).toMatchObject({
      properties: { image: { type: "string", format: "binary" } },
      required: ["image"],
    });
    const example = targetOf("/application~1json/example", content);
    expect(example).toEqual([{ image: expect.stringMatching(/^data:image\/png;base64,/) }]);
    expect((await pictures.client.predict(example as unknown[])).status).toBe("success");
  });
});
