/** Builds and serves the models of a documentation page, with small networks in place of the author's weights. */
import { expect, test } from "bun:test";
import { copyFile, readFile, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { guideWeights } from "./exports.ts";
import { tempDir } from "./fixture.ts";
import { blocksOf } from "./readme.ts";
import { storeWith } from "./server.ts";

const root = join(import.meta.dir, "../..");

export interface PageModel {
  readonly input: unknown;
  /** Checks the model's output for `input`. */
  readonly check: (output: unknown) => void | Promise<void>;
  /** Further files of the model folder, by name: bytes or text. */
  readonly files?: Readonly<Record<string, Uint8Array | string>>;
}

/**
 * Adds a test for each model of a documentation page. @param models input and check of each model, by the path that the
 * page gives the model
 */
export function testPageModels(page: string, models: Readonly<Record<string, PageModel>>): void {
  const blocks = readFile(join(root, page), "utf8").then((text) =>
    blocksOf(text).filter(({ content }) => content.includes("export default defineModel(")),
  );

  test(`every model of ${page} has a test`, async () => {
    expect((await blocks).map(({ path }) => path).sort()).toEqual(Object.keys(models).sort());
  });

  test.each(Object.entries(models))(
    `%s of ${page} builds and serves`,
    async (path, { input, check, files = {} }) => {
      await using dir = await tempDir();
      const text = (await blocks).find((block) => block.path === path)?.content ?? "";
      await Bun.write(dir.join("model.ts"), text);
      const weights = await guideWeights();
      for (const [, file = ""] of text.matchAll(/"([\w-]+\.pt2?)"/g))
        if (!(file in files)) await copyFile(join(weights, file), dir.join(file));
      // npm packages that the page installs are in node_modules of this checkout.
      await symlink(join(root, "node_modules"), dir.join("node_modules"));
      for (const [name, content] of Object.entries(files)) await Bun.write(dir.join(name), content);
      await using store = await storeWith(dir.path);
      const name = /\bname: "([\w-]+)"/.exec(text)?.[1] ?? basename(path);
      await using server = await store.serve(name);
      const { status, outputs, error_message } = await server.client.predict([input]);
      expect({ status, error_message }).toEqual({ status: "success", error_message: undefined });
      await check(z.array(z.unknown()).length(1).parse(outputs)[0]);
    },
    120_000,
  );
}
