/**
 * Texts that name a model: names in the user's store, paths of stores, of models' folders and of weights files. All
 * processes of a server find the model that its parent process found.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { copyFile, cp, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ModelStore } from "../src/package/store/store.ts";
import { clientOf } from "./helpers/cli.ts";
import { commandLine } from "./helpers/command-line.ts";
import { refusal } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { addModels, modelFolder, storeWith } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

const options = ["--port", "0", "--host", "127.0.0.1", "--device", "cpu"];

/** Each kind of text, with the name of the model that it means. */
let named: Record<Kind, { readonly given: string; readonly name: string }>;

const kinds = ["stored", "store", "folder", "weights"] as const;
type Kind = (typeof kinds)[number];

const pairs = kinds.flatMap((first) => kinds.filter((other) => other !== first).map((second) => [first, second]));

/** Makes the folder of a model in JavaScript, whose one file of weights alone would also be a model. */
async function writeScript(name: string, file: string): Promise<string> {
  const folder = await writeModel(dir, modelText({ name: `"${name}"` }), name);
  const script = new Bun.Transpiler({ loader: "ts" }).transformSync(await readFile(join(folder, "model.ts"), "utf8"));
  await rm(join(folder, "model.ts"));
  await Bun.write(join(folder, file), script);
  return folder;
}

const dir = fixture(tempDir);
const sconce = fixture(() => commandLine({ cwd: dir.path, env: { SCONCE_HOME: dir.join("home"), HOME: dir.path } }));
const foreign = fixture(() => storeWith("lab"));
beforeAll(async () => {
  await mkdir(dir.join("home"));
  await addModels(dir.join("home"), ["texts"]);
  await writeScript("scripted", "model.js");
  const program = (await fixtures()).path("programs/tuple.pt2");
  await copyFile(program, dir.join("tuple.pt2"));
  named = {
    stored: { given: "texts", name: "texts" },
    store: { given: foreign.home, name: "lab" },
    folder: { given: "./scripted", name: "scripted" },
    weights: { given: "tuple.pt2", name: "tuple" },
  };
});

const list = z.object({ models: z.array(z.object({ name: z.string(), state: z.string(), digest: z.string() })) });

test.each(pairs)("the processes of `serve %s %s` find what the parent process found", async (first, second) => {
  const given = [first, second].map((kind) => named[kind as Kind]);
  const args = ["serve", ...given.map((each) => each.given), ...options, "--fronts", "2"];
  await using server = sconce.startCli(args);
  const client = await clientOf(server);
  const { models } = list.parse(await client.json("/models"));
  expect(models.map(({ name, state }) => [name, state])).toEqual(given.map(({ name }) => [name, "ready"]));
  const homes = given.map(({ name }) => (name === "lab" ? foreign.home : dir.join("home")));
  const found = await Promise.all(given.map(({ name }, i) => new ModelStore(homes[i]).resolve(name)));
  expect(models.map(({ digest }) => digest)).toEqual(found.map(({ digest }) => digest));
  // The foreign store gets no models.
  expect((await new ModelStore(foreign.home).list()).map(({ repository }) => repository)).toEqual(["lab"]);
});

test("a file of --models names models like the command line, with paths that begin at the file", async () => {
  await mkdir(dir.join("lists"), { recursive: true });
  await cp(dir.join("tuple.pt2"), dir.join("lists/other.pt2"));
  const paths = ["texts", foreign.home, "../scripted", "other.pt2"];
  await Bun.write(dir.join("lists/models.toml"), paths.map((path) => `[[model]]\nmodel = "${path}"\n`).join("\n"));
  await using server = sconce.startCli(["serve", "--models", "lists/models.toml", ...options]);
  const { models } = list.parse(await (await clientOf(server)).json("/models"));
  expect(models.map(({ name, state }) => [name, state])).toEqual(
    ["texts", "lab", "scripted", "other"].map((name) => [name, "ready"]),
  );
});

test.each(["model.ts", "model.js", "model.mts", "model.mjs"])(
  "a folder with %s is a model for serve as for build",
  async (file) => {
    const name = file.replace("model.", "in-");
    if (file.endsWith("ts")) {
      await writeModel(dir, modelText({ name: `"${name}"` }), name);
      if (file !== "model.ts") {
        await cp(dir.join(name, "model.ts"), dir.join(name, file));
        await rm(dir.join(name, "model.ts"));
      }
    } else await writeScript(name, file);
    const { stdout } = await sconce.cliHere(["build", name]);
    expect(stdout).toStartWith(`${name}:`);
    const { stdout: output } = await sconce.cliHere(["predict", `./${name}`, "x=1"]);
    expect(output).toBe('{"y":3}\n');
  },
);

describe("is refused by name:", () => {
  test("a folder that is a store and has a model", async () => {
    await cp(foreign.home, dir.join("both"), { recursive: true });
    await Bun.write(dir.join("both/model.mjs"), "");
    expect(await sconce.cliHere(["serve", "./both"])).toMatchObject(
      refusal(2, `${dir.join("both")} is a model store and has model.mjs: move one of both`),
    );
  });

  test("a name that is also a file", async () => {
    const store = new ModelStore(dir.join("home"));
    const { digest } = await store.resolve("texts");
    store.tag(`texts@${digest}`, "texts.pt2:latest");
    await copyFile(dir.join("tuple.pt2"), dir.join("texts.pt2"));
    expect(await sconce.cliHere(["serve", "texts.pt2"])).toMatchObject(
      refusal(2, "texts.pt2 is a file here and a model of the store: write ./texts.pt2 or texts.pt2:latest"),
    );
  });

  test("a folder without a model, with what it should contain", async () => {
    await mkdir(dir.join("empty"));
    const expected = "expected a model store, model.ts or one file of weights (.pt2, .pt) in";
    expect(await sconce.cliHere(["serve", "./empty"])).toMatchObject(refusal(2, expected));
  });

  test("a path that leads nowhere", async () => {
    expect(await sconce.cliHere(["serve", "./scriptd"])).toMatchObject(
      refusal(2, `there is no ${dir.join("scriptd")}; expected a model store, `),
    );
  });

  test("a folder as --models", async () => {
    expect(await sconce.cliHere(["serve", "texts", "--models", foreign.home])).toMatchObject(
      refusal(2, "the models of --models cannot be read: EISDIR"),
    );
  });

  test.each(["inspect", "compile", "image"])("a weights file, by %s", async (command) => {
    const folder = command === "image" ? ["--output", "layout"] : [];
    expect(await sconce.cliHere([command, ...folder, "tuple.pt2"])).toMatchObject(
      refusal(2, `${dir.join("tuple.pt2")} is not packaged: `),
    );
  });
});

test("inspect and predict take the path of a store", async () => {
  const { stdout } = await sconce.cliHere(["inspect", foreign.home]);
  expect(JSON.parse(stdout)).toMatchObject({ repository: "lab" });
  expect((await sconce.cliHere(["predict", foreign.home, "x=1"])).stdout).toContain('"y":3');
  expect(await readdir(modelFolder("lab"))).toContain("model.ts");
});
